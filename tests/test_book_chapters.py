"""Promises that every stored chapter keeps, checked without running it."""

import re
from pathlib import Path

import nbformat
import pytest

from bookkit.run import dumps, normalise

BOOK = Path(__file__).parents[1] / "book"
CHAPTERS = sorted(BOOK.glob("[0-9]*.ipynb"))
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list:
    return [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]


@each_chapter
def test_every_code_cell_was_run_in_order(path):
    # nbval passes a cell without a count unchecked.
    counts = [cell.execution_count for cell in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1))


@each_chapter
def test_chapters_are_stored_in_normal_form(path):
    assert path.read_text(encoding="utf-8") == dumps(normalise(nbformat.read(path, 4)))


@each_chapter
def test_figures_say_what_they_show(path):
    for number, cell in enumerate(code_cells(path), 1):
        kinds = {kind for output in cell.outputs for kind in output.get("data", {})}
        if kinds & {"image/svg+xml", "image/png"}:
            assert cell.metadata.get("mystnb", {}).get("image", {}).get("alt"), (
                f"code cell {number}: no alt text"
            )


@each_chapter
def test_outputs_do_not_depend_on_the_machine(path):
    for number, cell in enumerate(code_cells(path), 1):
        texts = [
            output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in cell.outputs
        ]
        found = re.findall(r"/(?:home|root|tmp|Users)/\S+|0x[0-9a-f]{8,}", "".join(texts))
        assert not found, f"code cell {number} shows {found[0]}"


def test_every_chapter_is_in_the_table_of_contents():
    contents = (BOOK.parent / "_toc.yml").read_text(encoding="utf-8")
    assert [path.stem for path in CHAPTERS if f"book/{path.stem}" not in contents] == []
