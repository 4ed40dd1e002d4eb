"""Sliders that follow a pointer: a mouse anywhere, a finger on the handle, and still the keyboard."""

import pytest

from bookkit import Explorer, Frame, Knob
from bookkit.page import STYLE_SHEET


def explorer() -> str:
    def frame(x, y):
        return Frame(
            f"<svg viewBox='0 0 100 100'>"
            f"<circle data-handle='' cx='{10 + 20 * x}' cy='{90 - 20 * y}' r='12'/></svg>",
            f"at {x} {y}",
        )

    knobs = [
        Knob("x", "across", [0, 1, 2, 3, 4], start=2, drag=("x", 0.1, 0.9)),
        Knob("y", "up", [0, 1, 2, 3, 4], start=2, drag=("y", 0.9, 0.1)),
    ]
    return Explorer("Place", knobs, frame)._repr_html_()


@pytest.fixture
def opened(visit):
    seen = visit(has_touch=True)
    seen.page.set_content(f"<div style='width:300px'>{explorer()}</div>")
    seen.page.add_style_tag(path=STYLE_SHEET)
    box = seen.page.locator("svg").bounding_box()
    return seen, lambda x, y: (box["x"] + x * box["width"], box["y"] + y * box["height"])


def readout(seen) -> str:
    return seen.page.locator(".bk-readout").inner_text()


def test_a_mouse_drags(opened):
    seen, at = opened
    seen.page.mouse.move(*at(0.1, 0.9))
    assert readout(seen) == "at 2 2"  # nothing is pressed yet
    seen.page.mouse.down()
    assert readout(seen) == "at 0 0"
    seen.page.mouse.move(*at(0.7, 0.32))
    assert readout(seen) == "at 3 3"
    seen.page.mouse.move(*at(2.0, -1.0))  # outside: it stays at the ends
    assert readout(seen) == "at 4 4"
    seen.page.mouse.up()
    seen.page.mouse.move(*at(0.1, 0.9))
    assert readout(seen) == "at 4 4"
    assert seen.problems == []


@pytest.fixture
def finger(opened):
    """finger((x, y), …): put down, moved to the other places, lifted; in shares of the picture."""
    seen, at = opened
    device = seen.page.context.new_cdp_session(seen.page)

    def touch(kind, *points):
        device.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]}
        )

    def stroke(start, *places):
        touch("touchStart", at(*start))
        for place in places:
            touch("touchMove", at(*place))
        touch("touchEnd")
        for _ in range(2):  # moves arrive with the next picture
            seen.page.evaluate("new Promise(requestAnimationFrame)")

    return stroke


def test_a_finger_drags_the_handle(opened, finger):
    seen, _ = opened
    # A browser too busy to answer a finger in time scrolls instead, whatever the page says: try again.
    for _ in range(5):
        finger((0.5, 0.5), (0.6, 0.5), (0.7, 0.5), (0.8, 0.5), (0.9, 0.5))  # every move redraws what is held
        if readout(seen) != "at 2 2":
            break
    assert readout(seen) == "at 4 2"
    assert seen.problems == []


def test_a_finger_elsewhere_scrolls(opened, finger):
    seen, _ = opened
    finger((0.1, 0.1), (0.3, 0.1))
    assert readout(seen) == "at 2 2"
    assert seen.problems == []


def test_the_keyboard_is_enough(opened):
    seen, _ = opened
    seen.page.get_by_label("up").press("ArrowLeft")
    assert readout(seen) == "at 2 1"
