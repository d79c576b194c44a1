"""Check the links of the built site that stay within it: files, and places in them. Usage: internal_links.py FOLDER."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, and the places that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note links and places."""
        for name, value in attributes:
            if value and (name == "src" or (name == "href" and tag in ("a", "link"))):
                self.links.add(value)
            elif value and (name == "id" or (name == "name" and tag == "a")):
                self.places.add(value)


def broken_links(folder: Path) -> list[str]:
    """Return ``page: link`` of all links to files or places that are not there."""
    # The theme keeps templates of its own in _static: no pages.
    paths = (path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts)
    pages = {path.resolve(): Page(path) for path in paths}
    broken = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            lacks_place = place and target in pages and place not in pages[target].places
            if not target.exists() or lacks_place:
                broken.append(f"{path.relative_to(folder.resolve())}: {link}")
    return broken


if __name__ == "__main__":
    found = broken_links(Path(sys.argv[1]))
    print("\n".join(found) or "All links within the site lead somewhere.")
    sys.exit(bool(found))
