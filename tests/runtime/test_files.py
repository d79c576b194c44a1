"""Files are written whole or not at all, onto plain files only, and errors name what the user named."""

from __future__ import annotations

import os
import stat

import pytest

from atklearn.runtime.files import write_whole


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / ("n" * 250)  # so long that no longer name is allowed
    for content in (b"first", b"second"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask()


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("other"), os.mkdir])
def test_what_is_no_plain_file_stays_as_it_is(tmp_path, make):
    path = tmp_path / "said.csv"
    make(path)
    before = path.lstat()
    with pytest.raises(OSError) as caught:  # noqa: PT011
        write_whole(path, b"content")
    assert caught.value.filename == str(path)
    after = path.lstat()
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)
    assert list(tmp_path.iterdir()) == [path]


def test_errors_name_the_file_as_it_was_named(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(tmp_path / "absent" / "said.csv", b"")
    assert caught.value.filename == str(tmp_path / "absent" / "said.csv")
    path = tmp_path / "kept.csv"
    path.write_bytes(b"old")

    def full(self, target):  # noqa: ARG001
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_whole(path, b"new")
    assert (caught.value.errno, caught.value.filename) == (28, str(path))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
