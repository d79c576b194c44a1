"""Files that are written whole or not at all."""

from __future__ import annotations

import stat
from errno import EINVAL
from pathlib import Path
from secrets import token_hex

__all__ = ["write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """Write a file such that nobody ever sees a part of it: under another name first, in the same folder.

    A device, a link or a folder of that name is left as it is, which is an OSError; all errors name the file.

    Parameters
    ----------
    path : Path
    content : bytes

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "answer.txt", b"42")
    ...     [(file.name, file.read_bytes()) for file in Path(folder).iterdir()]
    [('answer.txt', b'42')]
    """
    # of a name that nobody can foresee, and that is not too long if the other one is not
    unfinished = path.with_name(f".{token_hex(8)}")
    try:
        _refuse_other_than_files(path)
        try:
            with unfinished.open("xb") as file:
                file.write(content)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def _refuse_other_than_files(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # the system itself refuses to replace a folder
        raise OSError(EINVAL, "it is a device or a link and no plain file")
