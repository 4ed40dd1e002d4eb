"""The book's promise: every line of every file of the package is shown by one chapter, once, and as it is."""

import json

import pytest

from bookkit import ROOT, source
from bookkit.coverage import main, notebooks, ranges, survey

THE_BOOK = survey(notebooks(ROOT))

SAMPLE = '''\
"""A docstring
of <two> & lines."""


def f(x):
    return x < 1 and "a"
'''


@pytest.mark.parametrize("file", THE_BOOK, ids=lambda file: file.path)
def test_every_line_of_the_package_is_shown_once_and_as_it_is(file):
    faults = [f"{file.path} {fault}" for fault in file.faults()]
    assert not faults, "\n".join(faults)


def test_the_whole_package_was_looked_at():
    package = source.package_file("__init__.py").parent
    files = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    assert files == {file.path for file in THE_BOOK}


class Book:
    """A small package, and chapters that show pieces of it."""

    def __init__(self, root):
        self.root, self.package = root, root / "package"
        (root / "book").mkdir()
        self.package.mkdir()

    def write(self, path: str, text: str = SAMPLE) -> str:
        (self.package / path).parent.mkdir(exist_ok=True)
        (self.package / path).write_text(text, encoding="utf-8")
        return path

    def chapter(self, name: str, *pieces: tuple[str, int, int], tags: tuple[str, ...] = ()) -> None:
        """Each piece is a file with its first and last line, shown in a cell of its own."""
        listings = [source.Listing(path, first, last, note="Why.") for path, first, last in pieces]
        cells = [{"cell_type": "markdown", "metadata": {}, "source": "Prose."}] + [
            {
                "cell_type": "code",
                "metadata": {"tags": [*tags]},
                "outputs": [{"data": {"text/html": listing._repr_html_().splitlines(keepends=True)}}],
            }
            for listing in listings
        ]
        (self.root / f"book/{name}.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")

    def contents(self, *names: str) -> None:
        lines = ["root: book/index", "chapters:", *(f"      - file: book/{name}" for name in names)]
        (self.root / "_toc.yml").write_text("\n".join(lines), encoding="utf-8")

    def faults(self) -> dict[str, list[str]]:
        chapters = sorted((self.root / "book").glob("*.ipynb"))
        return {file.path: [*file.faults()] for file in survey(chapters, self.package)}


@pytest.fixture
def book(tmp_path, monkeypatch):
    book = Book(tmp_path)
    monkeypatch.setattr(source, "package_file", lambda path: book.package / path)
    return book


def test_a_file_shown_whole_and_once_has_no_fault(book):
    book.write("a.py")
    book.write("rooms/b.py", "x = 1\n\n\n")
    book.write("empty.py", "")
    book.chapter("1", ("a.py", 1, 4), ("rooms/b.py", 1, 3))
    book.chapter("2", ("a.py", 5, 6))
    assert book.faults() == {"a.py": [], "empty.py": [], "rooms/b.py": []}


def test_lines_that_nobody_shows_are_missing_also_blank_ones_and_docstrings(book):
    book.write("a.py")
    book.write("b.py")
    book.chapter("1", ("a.py", 1, 1), ("a.py", 5, 5))
    assert book.faults() == {"a.py": ["missing: 2-4, 6"], "b.py": ["missing: 1-6"]}


def test_lines_that_two_listings_show_are_doubled(book):
    book.write("a.py")
    book.write("b.py")
    book.chapter("1", ("a.py", 1, 6), ("b.py", 1, 6), ("b.py", 3, 3))
    book.chapter("2", ("a.py", 2, 3), ("a.py", 6, 6))
    assert book.faults() == {"a.py": ["doubled: 2-3, 6 in 1 and 2"], "b.py": ["doubled: 3 in 1 and 1"]}


@pytest.mark.parametrize(
    ("now", "faults"),
    [
        (SAMPLE.replace("x < 1", "x > 1"), ["stale: 4-6 in 1"]),  # a changed line
        (SAMPLE.replace("f(x)", "f(x) "), ["stale: 4-6 in 1"]),  # by a blank at its end
        ("\n" + SAMPLE, ["missing: 7", "stale: 1-6 in 1"]),  # all one further down
        (SAMPLE + "\n", ["missing: 7"]),
        (SAMPLE.rpartition("    ")[0], ["stale: 4-6 in 1"]),  # shorter
    ],
)
def test_a_listing_that_no_longer_equals_its_file_is_stale(book, now, faults):
    book.write("a.py")
    book.chapter("1", ("a.py", 1, 3), ("a.py", 4, 6))
    book.write("a.py", now)
    assert book.faults() == {"a.py": faults}


def test_a_listing_of_a_file_that_is_gone_is_stale(book):
    book.chapter("1", (book.write("a.py"), 1, 6))
    (book.package / "a.py").rename(book.package / "b.py")
    assert book.faults() == {"b.py": ["missing: 1-6"], "a.py": ["stale: 1-6 in 1"]}


def test_a_listing_with_a_number_that_is_not_the_lines_is_stale(book):
    book.chapter("1", (book.write("a.py", "pass\npass\n"), 1, 2))
    stored = book.root / "book/1.ipynb"
    stored.write_text(stored.read_text().replace("2 </span>", "3 </span>"))
    assert book.faults() == {"a.py": ["missing: 2", "stale: 1, 3 in 1"]}


@pytest.mark.parametrize("tag", ["remove-cell", "remove-output"])
def test_a_listing_that_is_not_on_the_page_shows_nothing(book, tag):
    book.chapter("1", (book.write("a.py"), 1, 6), tags=(tag,))
    assert book.faults() == {"a.py": ["missing: 1-6"]}


def test_chapters_are_those_in_the_table_of_contents_and_drafts_come_after_them(book):
    for name in ("b", "a", "draft"):
        book.chapter(name)
    book.contents("b", "references", "a")
    assert [path.stem for path in notebooks(book.root)] == ["b", "a"]
    assert [path.stem for path in notebooks(book.root, drafts=True)] == ["b", "a", "draft"]


def test_the_command_prints_who_shows_what_and_what_is_wrong(book, monkeypatch, capsys):
    monkeypatch.setattr("bookkit.coverage.package_file", lambda path: book.package / path)
    monkeypatch.setattr("bookkit.coverage.ROOT", book.root)
    book.write("a.py")
    book.write("b.py")
    book.chapter("1", ("a.py", 1, 6))
    book.chapter("draft", ("b.py", 1, 6))
    book.contents("1")
    assert main([]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "a.py     6  1",
        "b.py     6  -",
        "",
        "b.py  missing: 1-6",
    ]
    assert main(["--drafts"]) == 0
    assert "b.py     6  draft\n\nEvery line" in capsys.readouterr().out


def test_ranges():
    assert ranges([10, 1, 2, 3, 7, 9]) == "1-3, 7, 9-10"
    assert ranges([]) == ""
