"""The wheel and the sdist, built here: what is in them, what they say, and what type checkers make of them."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import atklearn

ROOT = Path(__file__).parents[2]
USER = Path(__file__).parent / "typed_user.py"
PACKAGE = ROOT / "src" / "atklearn"
LEAST_COMPLETE = 0.8  # part of the public names of which pyright knows every type
CACHES = {"__pycache__", ".nbi", ".nbc", ".pyc"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the wheel and the sdist it is built from, made with the tools that are installed."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        yield archive


@pytest.fixture(scope="module")
def outside(built, tmp_path_factory):
    """The interpreter of an environment that has the wheel unpacked, not this folder, beside all that is installed."""
    home = tmp_path_factory.mktemp("user")
    venv.create(home, symlinks=True)
    site = next(home.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        archive.extractall(site)
    (site / "installed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    shutil.copy(USER, home)
    return home / "bin" / "python"


def is_cache(path):
    return bool(CACHES & {*path.parts, path.suffix})


def test_the_wheel_is_the_package_and_nothing_else(wheel):
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    files = {path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*") if path.is_file()}
    assert shipped == {path.as_posix() for path in files if not is_cache(path)}
    assert {"atklearn/py.typed", "atklearn/report/templates/page.html"} <= shipped


def test_the_wheel_has_its_licence(wheel):
    name = next(name for name in wheel.namelist() if name.endswith("LICENSE"))
    assert wheel.read(name) == (ROOT / "LICENSE").read_bytes()


def test_one_version_everywhere(built, wheel):
    metadata = email.message_from_bytes(wheel.read(next(n for n in wheel.namelist() if n.endswith("METADATA"))))
    citation = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)[1]
    newest = re.search(r"^## ([\w.]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert metadata["Version"] == citation == newest == atklearn.__version__
    assert {path.name.split("-")[1].removesuffix(".tar.gz") for path in built.glob("atklearn-*")} == {
        metadata["Version"]
    }


def test_the_sdist_builds_the_package_and_carries_no_tests(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {Path(*Path(name).parts[1:]) for name in archive.getnames()}
    assert {Path("pyproject.toml"), Path("README.md"), Path("LICENSE"), Path("CITATION.cff")} <= names
    assert not any(is_cache(name) or name.parts[:1] in [("tests",), ("docs",), ("benchmarks",)] for name in names)


def test_mypy_accepts_a_users_program(outside):
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--python-executable={outside}", USER.name],
        cwd=outside.parents[1], capture_output=True, text=True,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_pyright_accepts_a_users_program_and_knows_most_types(outside):
    def pyright(*arguments):
        command = [sys.executable, "-m", "pyright", "--outputjson", *arguments]
        path = f"{outside.parent}{os.pathsep}{os.environ['PATH']}"  # how it finds the environment
        environment = {**os.environ, "PATH": path, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
        done = subprocess.run(command, cwd=outside.parents[1], capture_output=True, text=True, env=environment)
        return json.loads(done.stdout[done.stdout.index("{") :])

    assert pyright(USER.name)["generalDiagnostics"] == []
    completeness = pyright("--verifytypes", "atklearn", "--ignoreexternal")["typeCompleteness"]
    assert completeness["completenessScore"] >= LEAST_COMPLETE, completeness["exportedSymbolCounts"]
