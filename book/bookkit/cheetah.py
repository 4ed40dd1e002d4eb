"""HalfCheetah for the chapters: adapt a policy to both directions and look at how it runs; watch a run.

As a program, `python -m bookkit.cheetah` in `book/`, it makes from the stored runs what a page cannot
compute: `sweep.json` and the film. With folders of runs as arguments it stores the curves of those,
`trials.json`.
"""

import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mamlrl_core.checkpoint import write_atomically
from mamlrl_core.config import PRESETS, Config
from mamlrl_core.envs.locomotion import HalfCheetahEnv
from mamlrl_core.episodes import BatchEpisodes
from mamlrl_core.metrics import Metrics, in_words
from mamlrl_core.policies import MLPPolicy, Params
from mamlrl_core.seeding import Purpose, derive_seed
from mamlrl_core.training import Run, load_policy, load_run, make_learner, make_sampler

from . import ROOT, comparison, trials
from .explorer import Frame
from .plots import BLUE, GREEN, GREY, VERMILION

FAMILY = "half-cheetah-direction"
DATA = comparison.DATA / FAMILY
PRESET = PRESETS[FAMILY]
FILM = ROOT / "book" / "assets" / "cheetah.gif"
DIRECTIONS = np.array([-1.0, 1.0])  # backwards, forwards: the order of every axis of directions
NAMES, COLORS = ("backwards", "forwards"), (VERMILION, BLUE)
DT = 0.05  # seconds per step


class Stage(NamedTuple):
    """What a policy does after k steps of adaptation to a direction, for both directions."""

    paths: np.ndarray  # (2, T + 1, B): metres along x
    returns: np.ndarray  # (2, B)
    episodes: BatchEpisodes  # 2 tasks, B episodes each
    params: Params | None  # what played: one set per direction, or None for theta


def adapt_both_ways(
    policy: MLPPolicy,
    config: Config,
    alpha: float | None = None,
    steps: int = 1,
    episodes: int = 20,
    learn_from: int | None = None,
    seed: int = 0,
) -> list[Stage]:
    """Adapt `policy` to each direction on its own, and show it after 0, 1, ... `steps` gradient steps.

    alpha: the size of the first step, that of `config` if absent; the later steps keep their ratio to it.
    episodes: B, of each direction and step. learn_from: how many of them a step sees, all if absent. seed: of
    starts and noise.
    """
    scale = 1.0 if alpha is None else alpha / config.step_size(0)
    learner, params, stages = make_learner(config, policy), None, []
    with both_ways(config, episodes, seed) as sampler:
        for k in range(steps + 1):
            played = sampler.sample(policy, params, phase=k)
            stages.append(Stage(paths(played), played.returns.double().numpy(), played, params))
            if k < steps:
                seen = learner.estimate_advantages(played.first_episodes(learn_from or episodes))
                params = learner.adapt_all(seen, params, scale * config.step_size(k))
    return stages


def both_ways(config: Config, episodes: int, seed: int = 0):
    """A sampler of two tasks, backwards and forwards. Its streams are those of no training run."""
    sampler = make_sampler(
        config, num_tasks=2, episodes_per_task=episodes, seed=derive_seed(seed, Purpose.EVALUATION)
    )
    sampler.reset_task([{"direction": direction} for direction in DIRECTIONS])
    return sampler


def paths(episodes: BatchEpisodes) -> np.ndarray:
    """How far the torso has come at every moment of episodes that were played `both_ways`: (2, T + 1, B).

    The agent does not see x. The rewards tell it: direction · velocity - cost.
    """
    effort = episodes.actions.double().clamp(-1, 1).square().sum(-1)  # (2, T, B)
    velocity = episodes.rewards.double() + HalfCheetahEnv.CONTROL_COST * effort
    steps = DT * DIRECTIONS[:, None, None] * velocity.numpy()
    return np.concatenate([np.zeros_like(steps[:, :1]), steps.cumsum(1)], axis=1)


def directions_of(config: Config, iterations: int) -> np.ndarray:
    """The directions that the tasks of a run had, drawn again from its seed: (iterations, N)."""
    with make_sampler(config, episodes_per_task=1) as sampler:
        return np.array(
            [[task["direction"] for task in sampler.sample_tasks(i)] for i in range(iterations)]
        )


# --------------------------------------------------------------------------------------- a run, while it runs


def watch(run: Run) -> list[Metrics]:
    """Train `run` to its end. With a kernel the curves grow while it trains; nothing of that is stored."""
    from IPython.display import display
    from ipywidgets import HTML

    view = HTML()
    bundle = view._repr_mimebundle_() or {}
    display({kind: data for kind, data in bundle.items() if "widget-view" in kind}, raw=True)
    for metrics in run:
        done = f"{run.iteration} of {run.config.iterations} iterations · {in_words(metrics)}"
        view.value = f'<div class="bk-explorer"><p>{done}</p>{_sketch(run)}</div>'
    return run.metrics


def _sketch(run: Run) -> str:
    """Return over iterations as a small inline SVG: before adaptation grey, after it green."""
    curves = np.array([metrics["returns"] for metrics in run.metrics])  # (iterations so far, 2)
    low, high = curves.min(), curves.max() + 1e-9
    lines = ""
    for curve, color in zip(curves.T, (GREY, GREEN), strict=True):
        height = 120 * (high - curve) / (high - low)
        points = " ".join(f"{400 * i / run.config.iterations:.1f},{y:.1f}" for i, y in enumerate(height))
        lines += f'<polyline stroke="{color}" points="{points}"/>'
    return (
        f'<svg viewBox="-2 -2 404 124" style="max-width:26rem" fill="none" stroke-width="1.5">{lines}</svg>'
    )


# ----------------------------------------------------------------------------------------------- the explorer

ALPHAS = (0.01, 0.03, 0.1, 0.2, 0.5)
LEARN_FROM = (1, 5, 20)  # episodes
STEPS = 3


def shown(stage: Stage) -> tuple[np.ndarray, np.ndarray]:
    """What a frame draws: the mean path and the first four, every half second, (2, 21, 5); returns (2,)."""
    mean = stage.paths.mean(-1, keepdims=True)
    drawn = np.concatenate([mean, stage.paths[..., :4]], axis=-1)
    return drawn[:, ::10], stage.returns.mean(1)


def distance_frame(paths: np.ndarray, returns: np.ndarray) -> Frame:
    """Distance over time, both directions, as `shown` gives them: the mean bold, single episodes thin."""
    across, up = 400 / (paths.shape[1] - 1), 5  # units per moment; units per metre
    parts = [
        f'<svg viewBox="-52 -140 470 400" font-size="15" fill="{GREY}" stroke-linejoin="round">'
        f'<g stroke="{GREY}" stroke-width=".6">'
    ]
    parts += [f'<path stroke-opacity="{1 if x == 0 else 0.35}" d="M0 {-up * x}h400"/>' for x in TICKS]
    parts.append('</g><g text-anchor="end">')
    parts += [f'<text x="-6" y="{5 - up * x}">{x} m</text>'.replace("-20 m", "−20 m") for x in TICKS]
    parts.append('</g><text y="254">0 s</text><text x="400" y="254" text-anchor="end">10 s</text>')
    for name, color, each in zip(NAMES, COLORS, paths, strict=True):
        parts.append(f'<g stroke="{color}" fill="none">')
        for i, path in enumerate(each.T):
            points = [f"{round(across * t)} {round(-up * x)}" for t, x in enumerate(path)]
            weight = 'stroke-width="3.5"' if i == 0 else 'stroke-opacity=".55"'
            parts.append(f'<path {weight} d="M{"L".join(points)}"/>')
        y = -130 if name == "forwards" else 222
        parts.append(f'</g><text x="6" y="{y + 5}" fill="{color}">told to run {name}</text>')
    parts.append("</svg>")
    back, forth = (f"{value:.0f}".replace("-", "−") for value in returns)
    mean, worse = (f"{value:.0f}".replace("-", "−") for value in (returns.mean(), returns.min()))
    return Frame("".join(parts), f"return backwards {back}, forwards {forth}; mean {mean}, the worse {worse}")


TICKS = (20, 0, -20, -40)  # metres


def load_sweep() -> dict[tuple[float, int, int], tuple[np.ndarray, np.ndarray]]:
    """The frames of `sweep.json`: (alpha, episodes to learn from, k) -> (paths, returns)."""
    sweep = json.loads((DATA / "sweep.json").read_text())
    frames = {}
    for alpha, by_count in zip(ALPHAS, sweep["after"], strict=True):
        for count, stages in zip(LEARN_FROM, by_count, strict=True):
            for k, stage in enumerate([sweep["before"], *stages]):
                frames[alpha, count, k] = np.array(stage["paths"]) / 10, np.array(stage["returns"])
    return frames


def make_sweep() -> dict:
    """Everything in `sweep.json`, in whole decimetres."""
    config, policy = load_policy(DATA / "maml-1")

    def numbers(stage: Stage) -> dict:
        paths, returns = shown(stage)
        return {"paths": np.rint(10 * paths).astype(int).tolist(), "returns": returns.round(1).tolist()}

    after = [
        [
            [*map(numbers, adapt_both_ways(policy, config, alpha, STEPS, learn_from=count)[1:])]
            for count in LEARN_FROM
        ]
        for alpha in ALPHAS
    ]
    return {"before": numbers(adapt_both_ways(policy, config, steps=0)[0]), "after": after}


# ------------------------------------------------------------------------------------------------- the trials


def trial(run: Path) -> dict:
    """What a trial tells, with some diagnostics, and how its final policy runs in both directions."""
    config, policy = load_policy(run)
    _, state = load_run(run / "checkpoint.pt")
    columns = ("cg_residual", "kl", "trials", "step_norm", "explained_variance")
    both = [stage.returns.mean(1).round(1).tolist() for stage in adapt_both_ways(policy, config)]
    return {
        **trials.trial(run),
        "both_ways": both,  # before the step and after it; backwards and forwards
        **{name: [round(row[name], 3) for row in state["metrics"]] for name in columns},
    }


def store(name: str, content: dict | list) -> None:
    path = DATA / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, separators=(",", ":")).encode() + b"\n")
    print(path.relative_to(ROOT))


def main(runs: list[str]) -> None:
    if runs:
        store("trials.json", [trial(Path(run)) for run in runs])
    else:
        store("sweep.json", make_sweep())


if __name__ == "__main__":
    main(sys.argv[1:])
