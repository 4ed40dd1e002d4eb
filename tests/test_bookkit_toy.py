"""The opening chapter's drawings and the knobs that a pointer drags."""

import re

import numpy as np
import pytest
import torch

from bookkit import Explorer, Frame, Knob
from bookkit.toy import (
    LINE_DRAG,
    ORDERS,
    PLANE_DRAG,
    _parabola,
    bowls_frame,
    meta_gradients,
    plane_frame,
    sine_frame,
)

STEEP_AND_SHALLOW = ((2.0, 0.5), (-1.0, 1.0))
HESSIANS = np.array([[[0.55, -0.45], [-0.45, 0.55]], [[0.55, 0.45], [0.45, 0.55]]])
CENTERS = np.array([[-1.0, 0.0], [1.0, 0.0]])


@pytest.mark.parametrize("order", ORDERS)
def test_the_meta_gradients_are_those_of_autograd(order):
    hessians, centers = torch.tensor(HESSIANS), torch.tensor(CENTERS)
    theta, alpha = torch.tensor([0.3, -0.7], dtype=torch.float64, requires_grad=True), 0.8
    total = 0.0
    for H, c in zip(hessians, centers, strict=True):
        step = H @ (theta - c)
        adapted = theta - alpha * (step if order == "second order" else step.detach())
        total = total + 0.5 * (adapted - c) @ H @ (adapted - c) / 2
    (expected,) = torch.autograd.grad(total, theta)
    ours = meta_gradients(HESSIANS, CENTERS, theta.detach().numpy(), alpha)[order]
    np.testing.assert_allclose(ours, expected.numpy(), rtol=1e-12)


def test_a_parabola_is_drawn_as_one():
    def pixel(value):
        return round(1e6 * value)

    x0, y0, x1, y1, x2, y2 = map(int, re.findall(r"-?\d+", _parabola(pixel, pixel, 1.7, 0.4, 0.2, 3.0)))
    assert y0 == y2 == 3_000_000  # cut where it is too high
    for t in np.linspace(0, 1, 7):
        x = ((1 - t) ** 2 * x0 + 2 * t * (1 - t) * x1 + t**2 * x2) / 1e6
        y = ((1 - t) ** 2 * y0 + 2 * t * (1 - t) * y1 + t**2 * y2) / 1e6
        assert y == pytest.approx(0.5 * 1.7 * (x - 0.4) ** 2 + 0.2, abs=1e-5)


def test_the_words_of_a_frame_are_right():
    words = bowls_frame(*STEEP_AND_SHALLOW, 0.6, 0.4, "first order").readout
    # 1 − αa is 0.2 and 0.8; losses ½ a d² begin at 2.56 and 0.04; slopes a (1 − αa) d are 0.64 and −0.16.
    assert "from 2.56 to 0.10 (steep), from 0.04 to 0.03 (shallow), on average from 1.30 to 0.06" in words
    assert "first order meta-gradient is 0.24: it pulls θ to the left" in words
    assert "180° apart" in plane_frame(HESSIANS, CENTERS, (0.0, 0.0), 0.8).readout


def test_the_handle_lies_where_the_pointer_is_read():
    """A knob's ends, in fractions of the picture, are where its ends are drawn."""
    for value, at in ((-1.6, LINE_DRAG[1]), (1.6, LINE_DRAG[2])):
        x = int(
            re.search(
                r"data-handle.*?cx='(\d+)'", bowls_frame(*STEEP_AND_SHALLOW, value, 0.4, ORDERS[0]).svg
            )[1]
        )
        assert x / 600 == pytest.approx(at, abs=1e-3)
    for value, index in ((-1.6, 1), (1.6, 2)):
        svg = plane_frame(HESSIANS, CENTERS, (value, value), 0.4).svg
        x, y = map(int, re.search(r"data-handle.*?cx='(\d+)' cy='(\d+)'", svg).groups())
        assert x / 600 == pytest.approx(PLANE_DRAG["x"][index], abs=1e-3)
        assert y / 600 == pytest.approx(PLANE_DRAG["y"][index], abs=1e-3)


def test_frames_stay_small():
    x = np.linspace(-5, 5, 41)
    curves = {"meta-trained": np.sin(x), "joint": np.cos(x)}
    sine = sine_frame(x, np.sin(x), curves, np.zeros((5, 2)), {"meta-trained": 0.1, "joint": 2.0})
    assert "meta-trained 0.10, joint 2.00" in sine.readout
    frames = [
        sine,
        bowls_frame(*STEEP_AND_SHALLOW, 0.6, 0.4, ORDERS[0]),
        plane_frame(HESSIANS, CENTERS, (0.4, 0), 0.5),
    ]
    for frame in frames:
        assert len(frame.svg) < 2000
        assert '"' not in frame.svg and "nan" not in frame.svg


def page(**drag):
    knobs = [Knob("a", "place", [0, 1, 2, 3, 4], **drag), Knob("b", "other", ["x", "y"])]
    svg = '<svg viewBox="0 0 10 10"><rect data-handle="" width="10" height="10" fill="red"/></svg>'
    return Explorer("Places", knobs, lambda a, b: Frame(svg, f"{a} {b}"))._repr_html_()


def test_only_an_explorer_that_is_dragged_carries_the_script_for_it():
    assert "pointerdown" not in page() and "data-drag" not in page()
    assert "pointerdown" in page(drag=("x", 0.1, 0.9)) and 'data-drag="x 0.1 0.9"' in page(
        drag=("x", 0.1, 0.9)
    )


@pytest.mark.parametrize(
    "knob", [{"values": ["p", "q"], "drag": ("x", 0, 1)}, {"values": [1, 2], "drag": ("z", 0, 1)}]
)
def test_what_cannot_be_dragged_is_refused(knob):
    with pytest.raises(ValueError, match="drags along x or y"):
        Knob("a", "place", **knob)
