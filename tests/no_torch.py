"""As if PyTorch were not installed: ``sys.meta_path.insert(0, NoTorch())`` before it is imported."""

from __future__ import annotations


class NoTorch:
    """Finds no module of PyTorch."""

    def find_spec(self, name, *_):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
