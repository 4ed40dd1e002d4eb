"""Drawings of bodies show what the engine has; the stored gaits are those that are simulated."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")

from bookkit import locomotion  # noqa: E402
from bookkit.locomotion import (  # noqa: E402
    ANT,
    CHEETAH,
    Run,
    capsules,
    draw_body,
    gait,
    gait_frame,
    hinges,
    look_at,
    run_gaits,
    stadium,
    stored_gaits,
    view,
)
from mamlrl_core.envs.engine import ASSETS, load_model  # noqa: E402

HALF = np.sqrt(0.5)


def test_capsules_are_where_the_model_file_puts_them():
    """In the model's own pose an ant's bodies are not turned: ends add up along the file's tree."""
    parts = {part.name: part for part in capsules(load_model(ANT), load_model(ANT).qpos0)}

    def compare(body, origin):
        origin = origin + np.array(body.get("pos", "0 0 0").split(), float)
        for geom in body.findall("geom"):
            if geom.get("type") == "capsule" and geom.get("name"):
                ends = np.array(geom.get("fromto").split(), float).reshape(2, 3) + origin
                part = parts.pop(geom.get("name"))
                drawn = np.stack([part.start, part.end])
                assert np.abs(drawn - ends).max() < 1e-9 or np.abs(drawn[::-1] - ends).max() < 1e-9
                assert part.radius == 0.08
        for child in body.findall("body"):
            compare(child, origin)

    for body in ElementTree.parse(ASSETS / ANT).find("worldbody").findall("body"):
        compare(body, np.zeros(3))
    (torso,) = parts.values()  # the ball
    assert torso.start.tolist() == torso.end.tolist() == [0, 0, 0.75] and torso.radius == 0.25


def test_hinges_come_in_the_order_of_the_actions():
    names = [*hinges(load_model(CHEETAH), load_model(CHEETAH).qpos0)]
    assert names == ["bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot"]
    ant = hinges(load_model(ANT), load_model(ANT).qpos0)
    assert [*ant][:2] == ["hip_4", "ankle_4"] and np.allclose(ant["hip_4"], [0.2, -0.2, 0.75])


@pytest.mark.parametrize(
    ("angles", "right", "up", "towards"),
    [
        ((0, 0), [1, 0, 0], [0, 0, 1], [0, -1, 0]),  # from the side
        ((0, 90), [1, 0, 0], [0, 1, 0], [0, 0, 1]),  # from above
        ((90, 0), [0, 1, 0], [0, 0, 1], [1, 0, 0]),  # from ahead
        ((45, 0), [HALF, HALF, 0], [0, 0, 1], [HALF, -HALF, 0]),
    ],
)
def test_views(angles, right, up, towards):
    assert np.allclose(view(*angles), [right, up, towards])


def test_a_stadium_is_all_that_is_near_its_line():
    start, end, radius = np.array([1.0, 2.0]), np.array([4.0, 6.0]), 0.5
    outline = stadium(start, end, radius, corners=50)
    along = (outline - start) @ (end - start) / 5.0  # the line is 5 long
    nearest = start + np.clip(along, 0, 5)[:, None] * (end - start) / 5.0
    assert np.allclose(np.linalg.norm(outline - nearest, axis=-1), radius)
    x, y = outline.T
    area = abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2
    assert area == pytest.approx(5 * 2 * radius + np.pi * radius**2, rel=1e-3)
    ball = stadium(start, start, radius)
    assert np.allclose(np.linalg.norm(ball - start, axis=-1), radius)


def test_the_nearest_part_is_drawn_last():
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    draw_body(ax, load_model(ANT), load_model(ANT).qpos0, view(elevation=90))
    assert len(ax.patches) == 13
    bent = load_model(ANT).qpos0.copy()
    bent[7:] = [0, 1, 0, -1, 0, -1, 0, 1]
    ax = Figure().add_subplot()
    draw_body(ax, load_model(ANT), bent, view(elevation=90))
    feet = [patch.get_facecolor() for patch in ax.patches[:4]]  # the lowest parts
    assert len(set(feet)) == 1 and feet[0] != ax.patches[-1].get_facecolor()


def test_the_gait_of_a_leg_and_its_lag():
    torques = gait(0.0, np.array([1.0, 0.5]), 2.0, 90.0)
    assert np.allclose(torques, np.array([[1.0], [0.5]]) * [0, 1, 1, -1, 0, 0])
    assert np.allclose(gait(0.125, np.array(1.0), 2.0, 0.0), [1, 0, 0, 1, 0, 0])  # a quarter of a period on


def test_stored_gaits_are_those_that_are_simulated():
    """For a second: later, the last bits of another machine's sine would show."""
    settings = [(0.6, 3, 315), (1.0, 4, 135), (0.3, 2, 0)]
    states = run_gaits(*np.array(settings).T, steps=20)
    stored = stored_gaits()
    assert len(stored) == 96
    for row, setting in enumerate(settings):
        assert np.abs(stored[setting].x[:5] - states[::5, row, 1]).max() < 0.002
        assert stored[setting].poses.shape == (6, 9) and stored[setting].x.shape == (21,)


def test_a_frame_shows_poses_and_the_way():
    states = np.zeros((101, 19))
    states[:, 1] = np.linspace(0, -10, 101)
    frame = gait_frame(look_at(states))
    where, pay = frame.readout.split(", ", maxsplit=1)
    assert where == "after 5 seconds at −10.0 metres: 2.0 metres a second"
    assert pay == "paid with 200, less its torques, if “backwards” is meant"
    drawing = ElementTree.fromstring(frame.svg)
    points = np.array(drawing.find("polyline").get("points").split(), int).reshape(-1, 2)
    assert points[0].tolist() == [150, 415] and points[-1].tolist() == [1000, 415 + 110] and len(points) == 21
    limbs = [re.findall(r"M", path.get("d")) for path in drawing.findall("g")[0]]
    assert sum(map(len, limbs)) == 6 * 8
    assert gait_frame(Run(np.array([0.0, 40.0]), states[:6, 1:10])).svg.count(" 228") >= 1  # cut at 17 metres


def test_the_program_writes_what_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(locomotion, "DATA", tmp_path / "new")
    monkeypatch.setattr(locomotion, "AMPLITUDES", [0.5])
    monkeypatch.setattr(locomotion, "FREQUENCIES", [3])
    monkeypatch.setattr(locomotion, "LAGS", [0, 90])
    locomotion.main()
    assert [*stored_gaits()] == [(0.5, 3, 0), (0.5, 3, 90)]
