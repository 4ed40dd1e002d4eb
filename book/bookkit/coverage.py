"""Which chapter shows which lines of the package: `python -m bookkit.coverage [--drafts]`.

The book promises to show every line once. What counts is what the stored notebooks show; nothing is executed.
A line that no listing shows is missing, one that two listings show is doubled, and a listing whose text or
numbers are no longer those of the file is stale: `make chapters` renews it.
"""

import argparse
import html
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import ROOT
from .source import package_file

FIGURE = re.compile(r'<figure class="bk-listing" data-file="(.*?)".*?<pre[^>]*>(.*?)\n</pre>', re.DOTALL)
NUMBER = re.compile(r'<span class="bk-no"> *(\d+) </span>(.*)')
NOT_ON_THE_PAGE = {"remove-cell", "remove-output"}


@dataclass(frozen=True)
class Piece:
    """A listing as it is stored in a chapter: numbered lines of a file, without the colours."""

    chapter: str
    path: str  # of the file, in the package's folder
    lines: dict[int, str]

    def is_stale(self, current: list[str]) -> bool:
        """Whether the file, of which these are the lines, says something else by now."""
        return any(
            number > len(current) or current[number - 1] != line for number, line in self.lines.items()
        )


@dataclass(frozen=True)
class Coverage:
    """What a book shows of a file of `count` lines."""

    path: str
    count: int
    pieces: list[Piece]  # in the chapters' order
    stale: list[Piece]  # those of them that no longer show the file

    @property
    def chapters(self) -> list[str]:
        return list(dict.fromkeys(piece.chapter for piece in self.pieces))

    @property
    def shown(self) -> dict[int, list[str]]:
        """For each line of the file, the chapters of all listings that show it."""
        shown = {number: [] for number in range(1, self.count + 1)}
        for piece in self.pieces:
            for number in piece.lines.keys() & shown.keys():
                shown[number].append(piece.chapter)
        return shown

    def faults(self) -> Iterator[str]:
        """What is wrong, a phrase for each fault; none if every line is shown once and as it is."""
        if missing := [number for number, chapters in self.shown.items() if not chapters]:
            yield f"missing: {ranges(missing)}"
        doubled = defaultdict(list)
        for number, chapters in self.shown.items():
            if len(chapters) > 1:
                doubled[tuple(chapters)].append(number)
        for chapters, numbers in doubled.items():
            yield f"doubled: {ranges(numbers)} in {' and '.join(chapters)}"
        stale = defaultdict(set)
        for piece in self.stale:
            stale[piece.chapter] |= piece.lines.keys()
        for chapter, numbers in stale.items():
            yield f"stale: {ranges(numbers)} in {chapter}"


def ranges(numbers: Iterable[int]) -> str:
    """
    >>> ranges([1, 2, 3, 7, 9, 10])
    '1-3, 7, 9-10'
    """
    runs = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" if first < last else f"{first}" for first, last in runs)


def notebooks(root: Path, *, drafts: bool = False) -> list[Path]:
    """The chapters, in the order of the table of contents; then, if wanted, the drafts that are not in it."""
    files = re.findall(r"^ *- file: *(\S+)", (root / "_toc.yml").read_text(encoding="utf-8"), re.MULTILINE)
    chapters = [path for file in files if (path := root / f"{file}.ipynb").is_file()]
    waiting = sorted(set((root / "book").glob("*.ipynb")) - set(chapters))
    return chapters + waiting if drafts else chapters


def pieces(notebook: Path) -> Iterator[Piece]:
    """Every listing that a reader of a chapter's page sees, from the outputs stored in it."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if NOT_ON_THE_PAGE & {*cell["metadata"].get("tags", [])}:
            continue
        for output in cell.get("outputs", []):
            page = "".join(output.get("data", {}).get("text/html", ""))
            for path, code in FIGURE.findall(page):
                rows = {int(number): without_tags(row) for number, row in NUMBER.findall(code)}
                yield Piece(notebook.stem, html.unescape(path), rows)


def without_tags(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def survey(chapters: Iterable[Path], package: Path | None = None) -> list[Coverage]:
    """How the chapters cover the package in a folder, file by file.

    A file that is no longer there but still shown is among them, with no lines.
    """
    package = package or package_file("__init__.py").parent
    files = {
        path.relative_to(package).as_posix(): path.read_text(encoding="utf-8").splitlines()
        for path in sorted(package.rglob("*.py"))
    }
    found = defaultdict(list)
    for chapter in chapters:
        for piece in pieces(chapter):
            found[piece.path].append(piece)
    return [
        Coverage(path, len(lines), found[path], [piece for piece in found[path] if piece.is_stale(lines)])
        for path, lines in {**files, **{path: files.get(path, []) for path in found}}.items()
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bookkit.coverage", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--drafts", action="store_true", help="count notebooks that are not in the table of contents, too"
    )
    options = parser.parse_args(arguments)
    covered = survey(notebooks(ROOT, drafts=options.drafts))
    width = max(len(file.path) for file in covered)
    for file in covered:
        print(f"{file.path:{width}} {file.count:5}  {', '.join(file.chapters) or '-'}")
    faults = [f"{file.path}  {fault}" for file in covered for fault in file.faults()]
    print("", *faults or ["Every line of the package is shown, once."], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
