"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """Write a file such that nobody ever sees a part of it: under another name first.

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
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
