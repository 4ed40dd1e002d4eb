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


@each_chapter
def test_a_chapter_has_the_frame(path):
    cells = nbformat.read(path, 4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    for promise in ("What you will be able to do", "What you need.", "Time to run.", "Next."):
        assert f"**{promise}**" in text, promise
    headings = re.findall(r"^## (.+)", text, re.MULTILINE)
    frame = ["Symbols", "Pitfalls", "Exercises", "Quiz", "Recap"]
    assert [heading for heading in headings if heading in frame] == frame
    assert headings[-1] == "Recap"


def parts_below(path: Path, heading: str) -> dict[str, tuple[str, list]]:
    """For each `### …` below `## heading`: its text, and its code cells."""
    parts, inside, part = {}, False, None
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "code":
            if inside and part:
                parts[part][1].append(cell)
            continue
        for line in cell.source.splitlines():
            if line.startswith("## "):
                inside, part = line == f"## {heading}", None
            elif inside and line.startswith("### "):
                part = line
                parts[part] = ("", [])
            elif part:
                parts[part] = (parts[part][0] + line + "\n", parts[part][1])
    return parts


@each_chapter
def test_every_pitfall_has_a_symptom_a_cause_a_cure_and_a_cell_that_shows_it(path):
    pitfalls = parts_below(path, "Pitfalls")
    assert len(pitfalls) >= 4
    for title, (text, cells) in pitfalls.items():
        for word in ("Symptom", "Cause", "Cure"):
            assert re.search(rf"\*{word}[.:]?\*", text), f"{title}: no {word}"
        assert cells, f"{title}: no cell"


@each_chapter
def test_there_are_exercises_with_graders_and_folded_solutions_and_questions(path):
    exercises = parts_below(path, "Exercises")
    assert len(exercises) >= 3
    cells = [cell for _, part in exercises.values() for cell in part]
    assert sum("hide-cell" in cell.metadata.get("tags", []) for cell in cells) >= 3
    assert sum(bool(re.search(r"^(?:check|expect)\(", cell.source, re.MULTILINE)) for cell in cells) >= 3
    assert sum(cell.source.count("Question(") for cell in code_cells(path)) >= 4


@each_chapter
def test_the_machinery_of_the_book_takes_two_lines(path):
    first = code_cells(path)[0].source
    lines = first.splitlines()
    assert [line for line in lines if "bookkit" in line] == ["import bookkit", "bookkit.setup()"]


@each_chapter
def test_a_reason_does_not_repeat_the_verdict(path):
    # The quiz itself says "Right." or "Not quite." before it.
    for cell in code_cells(path):
        if "Question(" in cell.source:
            assert re.findall(r'"(?:Right|Correct|Not quite)[.:,].*', cell.source) == []
