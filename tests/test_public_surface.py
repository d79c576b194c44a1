"""The public surface is what its listing says: names, parameters with defaults, attributes, options of the command.

A change of it is a change for users. `python tests/test_public_surface.py` writes the listing anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from numpydoc.docscrape import NumpyDocString

import atklearn
from atklearn.cli import app

LISTING = Path(__file__).with_name("public_surface.txt")
HEADER = """\
# The public surface of atklearn. Change it together with a line in CHANGELOG.md.

"""
SOURCE = Path(atklearn.__file__).parent
# What is not everybody's to install, with what it needs.
OPTIONAL = {"atklearn.torch": "torch", "atklearn.onnx": "skl2onnx"}


def packages() -> list[str]:
    """Return the names of the packages that list what is public."""
    files = [path for path in sorted(SOURCE.rglob("__init__.py")) if "\n__all__ = " in path.read_text()]
    return [".".join(path.parent.relative_to(SOURCE.parent).parts) for path in files]


def missing() -> tuple[str, ...]:
    """Return the packages that cannot be imported here."""
    return tuple(package for package, needed in OPTIONAL.items() if not find_spec(needed))


def signature(function: Any) -> str:
    """Return the parameters of a function with their defaults, without types."""
    found = inspect.signature(function)
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values()]
    bare = [each for each in bare if each.name not in ("self", "cls")]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def is_ours(function: Any) -> bool:
    return (inspect.unwrap(function).__module__ or "").startswith("atklearn")


def members(cls: type) -> Iterator[str]:
    """Yield methods with their parameters, properties, and what the docstring lists as attributes."""
    attributes = {name.strip() for each in NumpyDocString(inspect.getdoc(cls) or "")["Attributes"]
                  for name in each.name.split(",")}  # fmt: skip
    for name in sorted(attributes | {name for name in dir(cls) if not name.startswith("_")}):
        member = inspect.getattr_static(cls, name, None)
        function = getattr(member, "fn", getattr(member, "__func__", member))
        if inspect.isfunction(function):
            if is_ours(function):
                yield f"{name}{signature(function)}"
        elif name in attributes or (isinstance(member, property) and is_ours(member.fget)):
            yield name


def entries(name: str, public: Any) -> Iterator[str]:
    """Yield the lines of one public name."""
    if inspect.isclass(public):
        makes = public.__init__ is not object.__init__ and not issubclass(public, Exception)
        yield name + (signature(public) if makes else "")
        yield from (f"{name}.{member}" for member in members(public))
    elif inspect.isfunction(public):
        yield name + signature(public)
    elif isinstance(public, dict):
        yield from (f"{name}[{key!r}]" for key in sorted(public))
    else:
        yield name


def options() -> Iterator[str]:
    """Yield the arguments and options of the command."""
    for name, command in sorted(typer.main.get_command(app).commands.items()):
        for parameter in command.params:
            shown = ", ".join((*parameter.opts, *parameter.secondary_opts))
            yield f"$ atklearn {name} {shown if parameter.param_type_name == 'option' else parameter.name.upper()}"


def surface() -> list[str]:
    """Return the lines of the listing, for the packages that are here."""
    lines = []
    for package in packages():
        if package not in missing():
            module = import_module(package)
            lines += [
                line for name in sorted(module.__all__) for line in entries(f"{package}.{name}", vars(module)[name])
            ]
    return [*lines, *options()]


def test_the_public_surface_is_the_one_that_is_listed():
    text = LISTING.read_text(encoding="utf-8")
    assert text.startswith(HEADER)
    listed = [line for line in text.removeprefix(HEADER).splitlines()
              if not line.startswith(tuple(f"{package}." for package in missing()))]  # fmt: skip
    found = surface()
    gone, new = sorted(set(listed) - set(found)), sorted(set(found) - set(listed))
    assert (gone, new) == ([], []), "tell users in CHANGELOG.md, and run python tests/test_public_surface.py"
    assert found == listed


if __name__ == "__main__":
    if missing():
        raise SystemExit(f"The listing has all packages; install what {', '.join(missing())} needs first.")
    LISTING.write_text(HEADER + "\n".join(surface()) + "\n", encoding="utf-8")
