"""Bodies of the physics engine on paper, and the hand-made gaits of the chapter about them.

A body is a set of capsules (a ball is one whose ends coincide), and seen from afar a capsule is a thick line
with round ends. So a flat drawing shows exactly what the engine collides with the ground.

As a program, `python -m bookkit.locomotion` in `book/`, it makes `data/locomotion/gaits.json`.
"""

import json
from typing import NamedTuple

import mujoco
import numpy as np
from matplotlib.patches import Polygon

from mamlrl_core.envs.engine import load_model, silent_engine
from mamlrl_core.envs.locomotion import HalfCheetahDirEnv

from . import ROOT
from .explorer import Frame
from .plots import BLUE, GREY, VERMILION

DATA = ROOT / "book" / "data" / "locomotion"
CHEETAH, ANT = "half_cheetah.xml", "ant.xml"


class Capsule(NamedTuple):
    """What is within `radius` of the line from `start` to `end`, in metres."""

    name: str
    start: np.ndarray  # (3,)
    end: np.ndarray  # (3,)
    radius: float


def capsules(model: mujoco.MjModel, positions) -> list[Capsule]:
    """Where the parts of a body are in space. positions: qpos, (nq,). The ground is left out."""
    data = _placed(model, positions)
    parts = []
    for geom in np.flatnonzero(model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE):
        radius, half_length, _ = model.geom_size[geom]  # a ball's half length is zero
        axis = half_length * data.geom_xmat[geom].reshape(3, 3)[:, 2]
        middle = data.geom_xpos[geom]
        parts.append(Capsule(model.geom(geom).name, middle - axis, middle + axis, radius))
    return parts


def hinges(model: mujoco.MjModel, positions) -> dict[str, np.ndarray]:
    """Where the motors' joints are in space, (3,) each, in the order of the actions."""
    data = _placed(model, positions)
    return {model.joint(joint).name: data.xanchor[joint].copy() for joint in model.actuator_trnid[:, 0]}


def _placed(model: mujoco.MjModel, positions) -> mujoco.MjData:
    with silent_engine():
        data = mujoco.MjData(model)
        data.qpos[:] = positions
        mujoco.mj_kinematics(model, data)
    return data


def view(azimuth: float = 0.0, elevation: float = 0.0) -> np.ndarray:
    """From where one looks: the directions "right", "up" and "towards the eye" as rows, (3, 3). Degrees.

    With zeros one looks along y, at a body that runs along x: to the right.
    """
    a, e = np.radians([azimuth, elevation])
    right = np.array([np.cos(a), np.sin(a), 0.0])
    towards = np.array([np.sin(a) * np.cos(e), -np.cos(a) * np.cos(e), np.sin(e)])
    return np.stack([right, np.cross(towards, right), towards])


def draw_body(ax, model: mujoco.MjModel, positions, look: np.ndarray) -> None:
    """Draw a body as seen from `look`, what is farther away first."""
    parts = capsules(model, positions)
    for part in sorted(parts, key=lambda part: look[2] @ (part.start + part.end)):
        outline = stadium(look[:2] @ part.start, look[:2] @ part.end, part.radius)
        ax.add_patch(Polygon(outline, facecolor=part_color(part.name), edgecolor="white", linewidth=0.6))


def part_color(name: str) -> str:
    """A colour for each leg of the cheetah; for the ant, what its hips swing and what its ankles lift."""
    if name[1:] in ("thigh", "shin", "foot"):
        return VERMILION if name[0] == "b" else BLUE
    if name.endswith("ankle_geom"):
        return VERMILION
    return BLUE if name.endswith("leg_geom") else GREY


def stadium(start, end, radius: float, corners: int = 12) -> np.ndarray:
    """The outline of a thick line with round ends: (2 · corners, 2)."""
    start, end = np.asarray(start), np.asarray(end)
    along = np.arctan2(*(end - start)[::-1])
    turn = along + np.linspace(np.pi / 2, 3 * np.pi / 2, corners)
    cap = radius * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    return np.concatenate([start + cap, end - cap])


# ------------------------------------------------------------------------------------------- gaits


def gait(time, amplitude, frequency, lag) -> np.ndarray:
    """The torques of a gait that looks at nothing but the clock, (..., 6).

    Every motor swings like a sine, `amplitude` high and `frequency` times a second. In each leg shin and foot
    are a quarter of a period ahead of the thigh; the front leg is `lag` degrees behind the hind leg.
    """
    phase = 2 * np.pi * np.asarray(frequency * time)
    ahead = 0.0, np.pi / 2, np.pi / 2  # thigh, shin, foot
    swing = [np.sin(phase - behind + turn) for behind in (0.0, np.radians(lag)) for turn in ahead]
    return np.asarray(amplitude)[..., None] * np.stack(swing, axis=-1)


def run_gaits(amplitude, frequency, lag, steps: int = 100) -> np.ndarray:
    """Cheetahs that start at rest and run open loop, all at once: states (steps + 1, gaits, 19)."""
    settings = [np.atleast_1d(np.asarray(x, dtype=float)) for x in (amplitude, frequency, lag)]
    body, count = HalfCheetahDirEnv(), len(settings[0])
    task = {"direction": np.ones(count)}
    states = [body.initial_state(task, np.zeros((count, body.model.nq + body.model.nv)))]
    for step in range(steps):
        action = gait(step * body.dt, *settings)
        states.append(body.transition(states[-1], action, np.zeros((count, 0)), task)[0])
    body.close()
    return np.stack(states)


class Run(NamedTuple):
    """What a page shows of a gait: how far it has come, and how it moves."""

    x: np.ndarray  # metres, every fifth step, from the start on
    poses: np.ndarray  # (6, 9), positions at consecutive steps in the middle of the run


def look_at(states: np.ndarray) -> Run:
    """states: (T + 1, 19) of one gait."""
    middle = len(states) // 2
    return Run(states[::5, 1], states[middle : middle + 6, 1:10])


def gait_frame(run: Run, seconds: float = 5.0) -> Frame:
    """Six poses side by side, 0.05 seconds apart, above the distance covered, from -17 to 17 metres."""
    model, scale = load_model(CHEETAH), 100  # units of the drawing per metre
    parts = ['<svg viewBox="0 0 1000 620" role="img" aria-label="Six poses and the way" fill="none">']
    parts.append(f'<g stroke-width="{2 * 0.046 * scale:.0f}" stroke-linecap="round">')
    for number, pose in enumerate(run.poses):
        shift = np.array([95 + 162 * number - scale * pose[0], 190.0])
        strokes: dict[str, str] = {}
        for part in capsules(model, pose):
            ends = shift + scale * np.array([part.start[[0, 2]], part.end[[0, 2]]]) * [1, -1]
            (x, y), (to_x, to_y) = np.rint(ends).astype(int)
            color = part_color(part.name)
            strokes[color] = strokes.get(color, "") + f"M{x} {y}L{to_x} {to_y}"
        parts += [f'<path stroke="{color}" d="{line}"/>' for color, line in strokes.items()]
    axes = "M0 192H1000M150 230V600M150 415H1000"
    parts.append(f'</g><path stroke="{GREY}" stroke-width="3" d="{axes}" opacity=".6"/>')
    parts.append(f'<g fill="{GREY}" font-size="34" text-anchor="end">')
    for metres, label in ((15, "+15 m"), (0, "0"), (-15, "−15 m")):
        parts.append(f'<text x="138" y="{427 - 11 * metres}">{label}</text>')
    parts.append(f'<text x="990" y="262">{seconds:g} s</text></g>')
    x = np.rint(np.linspace(150, 1000, len(run.x))).astype(int)
    y = np.rint(415 - 11 * np.clip(run.x, -17, 17)).astype(int)
    points = " ".join(f"{a} {b}" for a, b in zip(x, y, strict=True))
    parts.append(f'<polyline stroke="{BLUE}" stroke-width="8" points="{points}"/></svg>')
    end = float(run.x[-1])
    where, way = f"{end:+.1f} metres".replace("-", "−"), "forwards" if end > 0 else "backwards"
    speed, pay = abs(end) / seconds, abs(end) / HalfCheetahDirEnv().dt
    readout = f"after {seconds:g} seconds at {where}: {speed:.1f} metres a second"
    return Frame("".join(parts), f"{readout}, paid with {pay:.0f}, less its torques, if “{way}” is meant")


AMPLITUDES, FREQUENCIES, LAGS = [0.3, 0.6, 1.0], [2, 3, 4, 5], [0, 45, 90, 135, 180, 225, 270, 315]


def stored_gaits() -> dict[tuple, Run]:
    """The runs of the explorer, by (amplitude, frequency, lag)."""
    rows = json.loads((DATA / "gaits.json").read_text())["gaits"]
    return {tuple(row["setting"]): Run(np.array(row["x"]), np.array(row["poses"])) for row in rows}


def main() -> None:
    settings = [(a, f, lag) for a in AMPLITUDES for f in FREQUENCIES for lag in LAGS]
    states = run_gaits(*np.array(settings).T)
    rows = []
    for number, setting in enumerate(settings):
        x, poses = look_at(states[:, number])
        rows.append({"setting": setting, "x": x.round(3).tolist(), "poses": poses.round(3).tolist()})
    text = ",\n".join(json.dumps(row) for row in rows)
    DATA.mkdir(parents=True, exist_ok=True)
    (DATA / "gaits.json").write_text(f'{{"gaits": [\n{text}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
