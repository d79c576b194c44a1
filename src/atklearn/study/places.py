"""Where the results of a run go: into the folder that is asked for, or beside it where that holds something else."""

from __future__ import annotations

import json
import re
import unicodedata
from itertools import count
from pathlib import Path
from typing import Any

__all__ = ["check_place", "find_place", "folder_name"]

_LONGEST_NAME = 120  # bytes

# What options change in a configuration, in the words of the command line.
_OPTIONS = {
    "columns": "columns",
    "data": "data",
    "losses": "--loss",
    "n_splits": "--splits",
    "random_state": "--seed",
    "left_out": "--quick",
    "yardstick": "yardstick",
}


def find_place(path: Path, header: dict[str, Any]) -> tuple[Path, str]:
    r"""Return the results file to write or to go on with, and why it is not the one asked for, if it is not.

    Parameters
    ----------
    path : Path
        A file in a folder that is this run's own.
    header : dict
        The first record of this run.

    Returns
    -------
    path : Path
        As asked for if its folder is not there, empty or holds this very run; else that of the first such folder with
        a number behind its name.
    reason : str
        Empty, or a sentence.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run" / "results.jsonl"
    >>> path.parent.mkdir()
    >>> _ = path.write_text('{"record": "run", "kind": "compare", "config": {"random_state": 0}}\n')
    >>> found, reason = find_place(path, {"record": "run", "kind": "compare", "config": {"random_state": 1}})
    >>> found.parent.name, reason.endswith("run-2.")
    ('run-2', True)
    """
    ours = json.loads(json.dumps(header))
    reasons = []
    place = path
    for number in count(2):
        held = _header_in(place)
        differing = "" if held is None else _difference(held, ours)
        if not differing and (place == path or not _foreign(place)):
            break
        reasons.append(differing)
        place = path.parent.with_name(f"{path.parent.name}-{number}") / path.name
    moved = f"{path.parent} holds another run ({reasons[0]}), so this one is in {place.parent}." if reasons else ""
    return place, moved


def check_place(path: Path) -> None:
    """Raise if the folder of a results file holds anything but a run.

    Parameters
    ----------
    path : Path

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> check_place(folder / "results.jsonl")
    >>> _ = (folder / "thesis.tex").write_text("")
    >>> try:
    ...     check_place(folder / "results.jsonl")
    ... except ValueError as error:
    ...     print(str(error).removeprefix(str(folder)))
     holds files that no run wrote, so nothing is written into it; choose another with --out.
    """
    foreign = _foreign(path)
    if foreign:
        raise ValueError(foreign)


def folder_name(*parts: str | None, **options: Any) -> str:
    """Return a name that any file system takes, from what tells one run from another.

    Parameters
    ----------
    *parts : str or None
    **options : str, number, list of str, bool or None
        Those that were given are written behind the parts.

    Examples
    --------
    >>> folder_name("compare", "Kundenübersicht (2)", "gekündigt?", without=["id", "name"], seed=1, quick=True)
    'compare-Kundenübersicht-2-gekündigt-without-id-name-seed-1-quick'
    """
    words = [part for part in parts if part]
    for name, value in options.items():
        if value:
            words += [name] if value is True else [name, *(value if isinstance(value, list) else [str(value)])]
    plain = (re.sub(r"[^\w.]+", "-", unicodedata.normalize("NFC", word)).strip("-.") for word in words)
    joined = "-".join(word for word in plain if word)
    return joined.encode()[:_LONGEST_NAME].decode(errors="ignore")


def _foreign(path: Path) -> str:
    """Return a sentence if the folder of a results file holds anything but a run, else nothing."""
    folder = path.parent
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        return f"A folder is expected for the results, and {there} is a file; choose another with --out."
    seen = [one for one in folder.iterdir() if not one.name.startswith(".")] if folder.exists() else []
    if seen and _header_in(path) is None and not _begun(path):
        return f"{folder} holds files that no run wrote, so nothing is written into it; choose another with --out."
    return ""


def _header_in(path: Path) -> dict[str, Any] | None:
    """Return the header of the run that a file holds, None if it holds none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        line = file.readline()
    try:
        header = json.loads(line)
    except ValueError:
        return None
    return header if isinstance(header, dict) and header.get("record") == "run" else None


def _begun(path: Path) -> bool:
    """Return whether a file is a run that was killed while its header was written."""
    begin = b'{"record":"run"'
    return path.is_file() and begin.startswith(path.read_bytes()[: len(begin)])


def _difference(found: dict[str, Any], ours: dict[str, Any]) -> str:
    """Name the first thing in which two runs differ; empty if they are the same."""
    for field in ("kind", "schema", "versions", "config"):
        theirs, own = found.get(field), ours.get(field)
        if theirs == own:
            continue
        if field == "schema":
            return "of another version of atklearn"
        if not (isinstance(theirs, dict) and isinstance(own, dict)):
            return f"of another {field}"
        key = next(key for key in [*own, *theirs] if theirs.get(key) != own.get(key))
        if field == "versions":
            return f"with {key} {theirs[key]}" if key in theirs else f"without {key}"
        return f"with other {_OPTIONS.get(key, '--' + key.replace('_', '-'))}"
    return ""
