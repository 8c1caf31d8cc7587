#!/usr/bin/env python3
"""Check that every relative link in the Markdown files leads to a file, and every #anchor to a heading."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

TREE = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[`~]*\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+).+?\1")
# [text](target "title"), ![text](target), and [label]: target
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'][^)]*)?\)|^[ \t]*\[[^\]]+\]:[ \t]*<?(\S+?)>?\s*$", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
NAMED = re.compile(r"<a\s+(?:id|name)=[\"']([^\"']+)")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


def main(tree: Path = TREE) -> int:
    """Print one line for each broken link; returns the exit code: 1 when there is one, or no file at all."""
    files = [*sorted(tree.glob("*.md")), *sorted((tree / "docs").rglob("*.md"))]
    links = 0
    broken: list[str] = []
    for file in files:
        for line, target in _links(file):
            links += 1
            if (problem := _problem(file, target)) is not None:
                broken.append(f"{file.relative_to(tree)}:{line}: {target}: {problem}")
    print("\n".join([*broken, f"{len(files)} files, {links} links, {len(broken)} broken"]))
    return 1 if broken or not files else 0


def _links(file: Path) -> Iterator[tuple[int, str]]:
    """The line and the target of each link that stays in this project."""
    text = _without_code(file.read_text(encoding="utf-8"))
    for match in LINK.finditer(text):
        target = match[1] or match[2]
        if not ELSEWHERE.match(target):
            yield text.count("\n", 0, match.start()) + 1, target


def _problem(file: Path, target: str) -> str | None:
    path, _, anchor = unquote(target).partition("#")
    goal = (file.parent / path) if path else file
    if not goal.exists():
        return "no such file"
    if anchor and goal.suffix == ".md" and anchor not in _anchors(goal):
        return "no such heading"
    return None


def _anchors(file: Path) -> set[str]:
    """The anchors of a file's headings, as the usual renderers make them: repeated ones get -1, -2, ..."""
    text = FENCE.sub("", file.read_text(encoding="utf-8"))
    seen: dict[str, int] = {}
    anchors = set(NAMED.findall(text))
    for heading in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        anchors.add(f"{slug}-{seen[slug]}" if slug in seen else slug)
        seen[slug] = seen.get(slug, 0) + 1
    return anchors


def _without_code(text: str) -> str:
    """The same text, on the same lines, without code: what looks like a link there is none."""
    text = FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    return CODE.sub("", text)


if __name__ == "__main__":
    sys.exit(main())
