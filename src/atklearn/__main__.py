"""The command ``atklearn``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say how to install it."""
    try:
        from atklearn.cli import app
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("atklearn"):
            raise
        sys.exit(f"The atklearn command needs {error.name}, which comes with: pip install 'atklearn[cli]'")
    app()


if __name__ == "__main__":
    main()
