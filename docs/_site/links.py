"""Checks a built site without a network: links, anchors, and that nothing is loaded from outside.

python docs/_site/links.py docs/_build/html
"""

import functools
import html.parser
import pathlib
import sys
import urllib.parse
from collections.abc import Iterator


class Page(html.parser.HTMLParser):
    """The anchors of a page, what it links to, and what it loads."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes one element."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.links += [values["href"]] if tag == "a" and "href" in values else []
        self.loads += [values["src"]] if "src" in values else []
        self.loads += [values["href"]] if tag == "link" and "href" in values else []


@functools.cache
def page(path: pathlib.Path) -> Page:
    """A page, read once."""
    return Page(path.read_text("utf-8"))


def broken(root: pathlib.Path) -> Iterator[str]:
    """One line for each link that leads nowhere and each file loaded from elsewhere."""
    for path in sorted(root.rglob("*.html")):
        for target in page(path).loads + page(path).links:
            parts = urllib.parse.urlsplit(target)
            if parts.scheme == "data" or (parts.netloc and target in page(path).links):
                continue
            if parts.netloc:
                yield f"{path.relative_to(root)}: loads {target}"
            elif not _leads_somewhere(path, parts):
                yield f"{path.relative_to(root)}: {target} is not there"


def _leads_somewhere(path: pathlib.Path, parts: urllib.parse.SplitResult) -> bool:
    place = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
    if not place.is_file():
        return False
    named = urllib.parse.unquote(parts.fragment)
    return not named or place.suffix != ".html" or named in page(place).anchors


if __name__ == "__main__":
    lines = list(broken(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(lines) or "All links and anchors are there.")
    sys.exit(bool(lines))
