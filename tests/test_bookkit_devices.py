"""Explorers, quizzes, graders and figures: what they put into a page."""

import json
import re

import numpy as np
import pytest

from bookkit import Choice, Explorer, Frame, Knob, Question, Quiz, check, navigation_frame


def explorer(**changes):
    arguments = {
        "title": "Sum",
        "knobs": [Knob("a", "first", [1, 2, 3], start=2), Knob("b", "second", ["x", "yy"])],
        "frame": lambda a, b: Frame(f"<svg><desc>{a}{b}</desc></svg>", f"{a} and {b}"),
    }
    return Explorer(**(arguments | changes))


def test_the_page_holds_every_frame_in_the_scripts_order():
    page = explorer()._repr_html_()
    frames = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page)[1])
    assert [readout for _, readout in frames] == [f"{a} and {b}" for a in (1, 2, 3) for b in ("x", "yy")]
    assert frames[3][0] == "<svg><desc>2yy</desc></svg>"


def test_the_first_state_needs_no_script():
    page = explorer()._repr_html_().split("<script")[0]
    assert '<div class="bk-picture"><svg><desc>2x</desc></svg></div>' in page
    assert ">2 and x</p>" in page
    assert "<fieldset disabled>" in page  # the script opens it


def test_every_control_has_a_label_of_its_own():
    page = explorer()._repr_html_()
    labelled = re.findall(r'<label for="([^"]+)"', page)
    assert len(set(labelled)) == 2
    assert set(labelled) == set(re.findall(r'<(?:input|select)[^>]* id="([^"]+)"', page))


def test_ids_follow_the_data_and_nothing_else():
    assert explorer()._repr_html_() == explorer()._repr_html_()
    other = explorer(title="Other")._repr_html_()
    assert re.search(r'data-explorer="(.*?)"', other)[1] not in explorer()._repr_html_()


def test_text_in_a_frame_cannot_end_the_script():
    page = explorer(frame=lambda a, b: Frame("<svg></svg>", "</script><b>"))._repr_html_()
    assert page.count("</script>") == 2


def test_without_a_kernel_no_widget_is_made():
    assert set(explorer(recompute=lambda a, b: Frame("", ""))._repr_mimebundle_()) == {
        "text/plain",
        "text/html",
    }


def test_the_live_view_recomputes_between_the_values_and_tells_errors():
    def recompute(a, b):
        if b == "yy":
            raise ValueError("no <yy>")
        return Frame(f"<svg>{a}</svg>", f"live {a}")

    box = explorer(
        recompute=recompute, knobs=[Knob("a", "a", [0.0, 1.0]), Knob("b", "b", ["x", "yy"])]
    ).live_view()
    _, a, b, picture, readout = box.children
    a.value = 0.37
    assert picture.value == '<div class="bk-picture"><svg>0.37</svg></div>'
    assert "live 0.37" in readout.value
    b.value = "yy"
    assert readout.value == "<b>ValueError</b>: no &lt;yy&gt;"


def test_a_knob_names_what_is_wrong():
    with pytest.raises(ValueError, match="'a' needs at least two"):
        Knob("a", "a", [1])
    with pytest.raises(ValueError, match="cannot start at 7"):
        Knob("a", "a", [1, 2], start=7)


def test_navigation_paths_keep_three_decimals_and_stay_small():
    rng = np.random.default_rng(0)
    paths = [rng.normal(0, 0.05, (100, 2)).cumsum(0) for _ in range(4)]
    frame = navigation_frame(paths, rng.uniform(-0.5, 0.5, (4, 2)), [-1.25, -2, -3, -4])
    assert frame.readout == "mean return −2.6 (each goal: −1.2, −2.0, −3.0, −4.0)"
    assert len(frame.svg) < 6000
    first = re.search(r'<path d="M(\S+ ?\S*)l(.*?)"', frame.svg)
    numbers = [int(n) for n in re.findall(r"-?\d+", first[2])]
    drawn = np.array([int(n) for n in re.findall(r"-?\d+", first[1])]) + np.reshape(numbers, (-1, 2)).cumsum(
        0
    )
    np.testing.assert_allclose(drawn, paths[0][1:] * [1000, -1000], atol=0.51)
    with pytest.raises(ValueError, match="4 trajectories, 3 goals"):
        navigation_frame(paths, np.zeros((3, 2)), np.zeros(4))


def test_a_quiz_names_a_reason_for_every_choice():
    quiz = Quiz(Question("Why *this*?", [Choice("a < b", "because", correct=True), Choice("c", "no: $x$")]))
    page = quiz._repr_html_()
    assert page.count('type="radio"') == page.count("data-reason=") == 2
    assert 'data-verdict="Right." data-reason="because"' in page
    assert "a &lt; b" in page and r"\(x\)" in page and "<em>this</em>" in page
    assert "1 (a) because" in repr(quiz)
    with pytest.raises(ValueError, match="exactly one"):
        Question("?", [Choice("a", "b")])


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (lambda x: x * 2, "✓ <lambda>: all 2 cases"),
        (lambda x: x + 1, "✗ <lambda>, case 2 of 2: got [2. 2.], expected [2.  2.5]"),
        (lambda x: np.sum(x * 2), "✗ <lambda>, case 2 of 2: the shape is (), expected (2,)"),
        (lambda x: None, "… <lambda>: not written yet (2 cases are waiting)"),
        (lambda x: x[7], "✗ <lambda>, case 1 of 2: TypeError: 'int' object is not subscriptable"),
    ],
)
def test_a_grader_says_what_it_found(answer, verdict, capsys):
    expected = np.array([2.0, 2.5])
    check(answer, [((1,), 2), ((expected / 2 if verdict[0] == "✓" else np.ones(2),), expected)])
    assert capsys.readouterr().out.strip() == verdict


def test_a_grader_takes_what_readers_hand_in(capsys):
    torch = pytest.importorskip("torch")
    check(lambda: torch.ones(2, requires_grad=True), [((), [1, 1])])
    check(lambda: [[1], [1, 2]], [((), [1, 1])])
    check(lambda: np.arange(1000) // 999, [((), np.zeros(1000))])
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "✓ <lambda>: its one case"
    assert "case 1 of 1: ValueError" in told[1]
    assert told[2] == "✗ <lambda>, case 1 of 1: at [999]: got 1, expected 0"


def test_a_grader_with_one_case_says_so(capsys):
    check(abs, [((-1,), 1)])
    check(lambda x: None, [((-1,), 1)])
    assert capsys.readouterr().out.splitlines() == [
        "✓ abs: its one case",
        "… <lambda>: not written yet (1 case is waiting)",
    ]
