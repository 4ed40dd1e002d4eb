"""Source listings: real lines, real numbers, nothing left out."""

import html
import re

import pytest

from bookkit import Walk, show, source


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A stand-in for the package's files; returns a function that writes one."""
    monkeypatch.setattr(source, "package_file", lambda path: tmp_path / path)

    def write(text: str, name: str = "a.py") -> str:
        (tmp_path / name).write_text(text)
        return name

    return write


SAMPLE = '''\
"""Two lines
of docstring, <b>&amp;</b>."""

LIMIT: int = 3

# why f
@decorated
def f(x):
    return x < 1 and "a" or 'b'


class C:
    def g(self):
        pass


'''


def code(listing) -> list[str]:
    """The lines of a listing as a reader would copy them: without tags and without numbers."""
    pre = re.search(r"<pre[^>]*>(.*)\n</pre>", listing._repr_html_(), re.DOTALL)[1]
    return [html.unescape(re.sub(r"<[^>]*>", "", line.partition("</span>")[2])) for line in pre.split("\n")]


def test_a_listing_is_the_file_to_the_letter(file):
    listing = show(file(SAMPLE))
    assert code(listing) == SAMPLE.splitlines()
    numbers = re.findall(r'class="bk-no">\s*(\d+) <', listing._repr_html_())
    assert numbers == [str(n) for n in range(1, len(SAMPLE.splitlines()) + 1)]
    assert 'data-file="a.py" data-first="1" data-last="16"' in listing._repr_html_()
    assert " 9     return x < 1" in repr(listing)


def test_real_files_are_shown_to_the_letter():
    for path in ("__init__.py", "envs/base.py"):
        assert code(show(path)) == source.read_lines(path)


@pytest.mark.parametrize(
    ("symbol", "lines"), [("LIMIT", (4, 4)), ("f", (6, 9)), ("C", (12, 14)), ("C.g", (13, 14))]
)
def test_a_symbol_brings_its_decorators_and_the_comment_above(file, symbol, lines):
    listing = show(file(SAMPLE), symbol)
    assert (listing.first, listing.last) == lines


def test_an_object_of_the_package_is_found_in_its_file():
    from mamlrl_core.envs.base import TaskEnv

    listing = show(TaskEnv.reset_task)
    assert listing.path == "envs/base.py"
    assert code(listing)[0].lstrip().startswith(("def reset_task", "@", "#"))


def test_wrong_requests_name_what_is_wrong(file):
    name = file(SAMPLE)
    with pytest.raises(LookupError, match=r"C\.h"):
        show(name, "C.h")
    with pytest.raises(ValueError, match="1 to 16"):
        show(name, lines=(3, 18))
    with pytest.raises(ValueError, match="not by both"):
        show(name, "f", lines=(1, 2))
    with pytest.raises(ValueError, match="not part of"):
        show(re.compile)


def test_a_missing_file_is_named():
    with pytest.raises(FileNotFoundError, match="nowhere"):
        show("envs/nowhere.py")


def test_a_note_is_markdown_with_mathematics(file):
    shown = show(file(SAMPLE), note=r"Some `code` and $\theta_i < 1$.")._repr_html_()
    assert "<code>code</code>" in shown
    assert r"\(\theta_i &lt; 1\)" in shown


def test_a_link_in_a_note_has_words(file):
    shown = show(file(SAMPLE), note="See [the step](07_outer_loop.ipynb).")
    assert '<a href="07_outer_loop.ipynb">the step</a>' in shown._repr_html_()
    with pytest.raises(ValueError, match=r"07_outer_loop\.ipynb has no words"):
        show(file(SAMPLE), note="See [](07_outer_loop.ipynb).")._repr_html_()


def test_a_walk_shows_every_line_once(file):
    name = file(SAMPLE)
    walk = Walk(name)
    pieces = [walk.until("# why f"), walk.through("f"), walk.rest()]
    walk.end()
    assert [line for piece in pieces for line in code(piece)] == SAMPLE.splitlines()
    assert [(p.first, p.last) for p in pieces] == [(1, 5), (6, 11), (12, 16)]


def test_a_cell_of_a_walk_may_be_run_again(file):
    walk = Walk(file(SAMPLE))
    first, again = walk.until("class C"), walk.until("class C")
    assert (first.first, first.last) == (again.first, again.last)
    assert walk.rest().first == first.last + 1


def test_a_walk_refuses_gaps_steps_back_and_doubt(file):
    walk = Walk(file(SAMPLE))
    walk.until("class C")
    with pytest.raises(LookupError, match="already passed line 11"):
        walk.through("f")
    with pytest.raises(LookupError, match="exactly one line"):
        walk.until("e")
    with pytest.raises(AssertionError, match="lines 12 to 16"):
        walk.end()
