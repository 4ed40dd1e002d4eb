"""The notebook runner: one normal form, the same bytes every time, and no error that goes unseen."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from bookkit import ROOT
from bookkit.run import dumps, main


@pytest.fixture
def chapter(tmp_path):
    """Writes a notebook whose code cells have the given sources; `(source, tag)` adds a tag."""

    def write(*cells, name="01_x.ipynb"):
        notebook = new_notebook(cells=[new_markdown_cell("# Title", id="title")])
        for number, cell in enumerate(cells):
            source, *tags = (cell,) if isinstance(cell, str) else cell
            metadata = {"tags": tags, "execution": {"iopub.execute_input": "now"}} if tags else {}
            notebook.cells.append(new_code_cell(source, metadata=metadata, id=f"cell-{number}"))
        path = tmp_path / name
        path.write_text(nbformat.writes(notebook))
        return path

    return write


def outputs(path) -> list:
    return [cell.outputs for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]


def test_outputs_are_stored_in_a_form_that_a_second_run_repeats(chapter):
    path = chapter(
        "import sys\nprint('a'); sys.stdout.flush(); print('b')",
        "import ipywidgets; ipywidgets.IntSlider()",
        ("1 / 0", "raises-exception"),
        "6 * 7",
    )
    assert main([str(path)]) == 0
    first = path.read_bytes()
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"] == [1, 2, 3, 4]
    assert "widgets" not in notebook.metadata
    assert b"widget-view" not in first and b"iopub" not in first and b"/site-packages" not in first
    printed, widget, error, answer = outputs(path)
    assert [output.text for output in printed] == ["a\nb\n"]
    assert "text/plain" in widget[0].data
    assert error[0].ename == "ZeroDivisionError"
    assert answer[0].data["text/plain"] == "42"
    assert main([str(path)]) == 0
    assert path.read_bytes() == first
    assert main(["--check", str(path)]) == 0


def test_the_working_directory_is_the_chapters(chapter):
    path = chapter("import pathlib; pathlib.Path('01_x.ipynb').is_file()")
    assert main([str(path)]) == 0
    assert outputs(path)[0][0].data["text/plain"] == "True"


def test_an_error_fails_the_run_and_leaves_the_file(chapter, capsys):
    path = chapter("print('fine')", "raise KeyError('lost')")
    before = path.read_bytes()
    assert main([str(path)]) == 1
    assert path.read_bytes() == before
    assert "KeyError: 'lost'" in capsys.readouterr().out


def test_check_shows_what_changed_and_writes_nothing(chapter, capsys):
    path = chapter("print('new')", ("import random; random.random()", "nbval-ignore-output"))
    assert main([str(path)]) == 0
    assert main(["--check", str(path)]) == 0  # the second cell's number differs, and may
    path.write_text(path.read_text().replace(r"new\n", r"old\n"))
    stale = path.read_bytes()
    capsys.readouterr()
    assert main(["--check", str(path)]) == 1
    assert path.read_bytes() == stale
    report = capsys.readouterr().out
    assert "-[stdout] old" in report and "+[stdout] new" in report and "cell 2" in report


def test_check_refuses_counts_that_were_not_stored(chapter, capsys):
    path = chapter("1 + 1")
    assert main([str(path)]) == 0
    notebook = nbformat.read(path, 4)
    notebook.cells[1].execution_count = None
    path.write_text(dumps(notebook))
    assert main(["--check", str(path)]) == 1
    assert "normal form" in capsys.readouterr().out


def test_a_long_output_that_changes_at_its_end_is_noticed(chapter):
    path = chapter("print('x' * 1000 + 'a')")
    assert main([str(path)]) == 0
    path.write_text(path.read_text().replace(r"xa\n", r"xb\n"))
    assert main(["--check", str(path)]) == 1


def test_pictures_are_compared_to_the_byte(chapter, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "book"))  # the chapter stands in another folder
    path = chapter("import bookkit; import matplotlib.pyplot as p; bookkit.setup()", "p.plot([1, 2]);")
    assert main([str(path)]) == 0
    setup, figure = outputs(path)
    assert setup == []  # the style sheet is not stored
    assert "Date" not in figure[0].data["image/svg+xml"]
    assert main(["--check", str(path)]) == 0
    path.write_text(path.read_text().replace("stroke-width: 2", "stroke-width: 3"))
    assert main(["--check", str(path)]) == 1


def test_an_empty_code_cell_is_refused(chapter, capsys):
    assert main([str(chapter("1", " "))]) == 1
    assert "empty code cell" in capsys.readouterr().out


def test_a_traceback_names_no_folder_of_this_machine(chapter):
    path = chapter(("import json; json.loads('{')", "raises-exception"))
    assert main([str(path)]) == 0
    assert "/lib/python3" not in path.read_text()
