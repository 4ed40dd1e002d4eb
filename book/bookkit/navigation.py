"""2-D navigation for the chapters: adapt a policy to chosen goals and look at its walks; watch a run.

As a program, `python -m bookkit.navigation` in `book/`, it makes from the stored runs what a page cannot
compute, `sweep.json`, and the front page's picture.
"""

import json
from typing import NamedTuple

import numpy as np
import torch

from mamlrl_core.checkpoint import write_atomically
from mamlrl_core.config import PRESETS, Config
from mamlrl_core.envs.navigation import Navigation2DEnv
from mamlrl_core.episodes import BatchEpisodes
from mamlrl_core.evaluation import evaluate
from mamlrl_core.metrics import Metrics, in_words
from mamlrl_core.policies import LOG_STD_MIN, MLPPolicy, Params
from mamlrl_core.seeding import Purpose, derive_seed
from mamlrl_core.training import Run, load_policy, make_learner, make_sampler

from . import ROOT, comparison
from .plots import BLUE, GREEN, GREY, VERMILION

DATA = comparison.DATA / "navigation"
PRESET = PRESETS["navigation-2d"]
SEEDS = (1, 2, 3)  # of the stored MAML runs
PICTURE = ROOT / "book" / "assets" / "navigation.svg"


class Stage(NamedTuple):
    """What a policy does in G tasks after k steps of adaptation."""

    paths: list[np.ndarray]  # G of (T + 1, 2): one walk per goal with the noise switched off
    returns: np.ndarray  # (G,), means over the episodes, which are played with the noise
    episodes: BatchEpisodes  # G tasks, B episodes each


def adapt_and_walk(
    policy: MLPPolicy,
    config: Config,
    goals,
    alpha: float | None = None,
    steps: int = 3,
    episodes: int = 20,
    seed: int = 0,
) -> list[Stage]:
    """Adapt `policy` to every goal on its own and show it after 0, 1, ... `steps` gradient steps.

    goals: (G, 2). alpha: the size of the first step, that of `config` if absent; the later steps keep their
    ratio to it. episodes: B, per goal and step. seed: of the noise.
    """
    goals = np.asarray(goals, dtype=float)  # (G, 2)
    scale = 1.0 if alpha is None else alpha / config.step_size(0)
    learner = make_learner(config, policy)
    common = {"num_tasks": len(goals), "seed": derive_seed(seed, Purpose.EVALUATION)}
    params, stages = None, []
    with (
        make_sampler(config, episodes_per_task=episodes, **common) as sampler,
        make_sampler(config, episodes_per_task=1, **common) as guide,
    ):
        for each in (sampler, guide):
            each.reset_task([{"goal": goal} for goal in goals])
        for k in range(steps + 1):
            batch = sampler.sample(policy, params, phase=k)
            walk = guide.sample(policy, without_noise(policy, params, len(goals)))
            stages.append(
                Stage([paths[0] for paths in positions(walk)], batch.returns.double().mean(-1).numpy(), batch)
            )
            if k < steps:
                params = learner.adapt_all(
                    learner.estimate_advantages(batch), params, scale * config.step_size(k)
                )
    return stages


def without_noise(policy: MLPPolicy, params: Params | None, num_tasks: int) -> Params:
    """The same parameters with the smallest standard deviation there is: every action is its mean."""
    if params is None:
        params = {name: tensor.expand(num_tasks, *tensor.shape) for name, tensor in policy.params().items()}
    return params | {"log_std": torch.full_like(params["log_std"], LOG_STD_MIN)}


def positions(episodes: BatchEpisodes) -> list[list[np.ndarray]]:
    """Where the walker was in every episode, the last step included: for each task, B arrays (T + 1, 2)."""
    observations, actions = episodes.observations[..., :2].double(), episodes.actions.double()
    after = observations + Navigation2DEnv.MAX_STEP * actions.clamp(-1, 1)  # (N, T, B, 2)
    return [
        [
            torch.cat([observations[i, :length, b], after[i, length - 1 : length, b]]).numpy()
            for b, length in enumerate(lengths)
        ]
        for i, lengths in enumerate(episodes.lengths.tolist())
    ]


def _circle(count: int, radius: float, start: float) -> np.ndarray:
    angle = start + np.arange(count) * 2 * np.pi / count
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1).round(6)


def held_out_goals(seed: int = 1, count: int = 8) -> np.ndarray:
    """The first goals of the evaluation with this seed: (count, 2)."""
    root = derive_seed(seed, Purpose.EVALUATION)
    with make_sampler(PRESET, num_tasks=count, episodes_per_task=1, seed=root) as sampler:
        return np.stack([task["goal"] for task in sampler.sample_tasks(0)])


GOAL_SETS = {
    "near and far": np.concatenate([_circle(4, 0.15, 0.0), _circle(4, 0.6, np.pi / 4)]),
    "a ring of eight": _circle(8, 0.4, 0.0),
    "eight held-out tasks": held_out_goals(),
}


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
    """Return over iterations as a small inline SVG, a line for each number of gradient steps."""
    lines = ""
    for k, color in enumerate((GREY, VERMILION, BLUE, GREEN)):
        curve = [(m["iteration"], m["returns"][k]) for m in run.metrics if k < len(m["returns"])]
        points = " ".join(f"{400 * i / run.config.iterations:.1f},{min(120, -1.2 * r):.1f}" for i, r in curve)
        lines += f'<polyline stroke="{color}" points="{points}"/>'
    return (
        f'<svg viewBox="-2 -2 404 124" style="max-width:26rem" fill="none" stroke-width="1.5">{lines}</svg>'
    )


# -------------------------------------------------------------------------------------------------- the sweep


def sweep_alphas() -> list[float]:
    """The step sizes of the static explorer: the preset's own is among them."""
    return sorted({0.1, 0.2, 0.3, 0.5, 0.7, 1.0, PRESET.fast_lr[0]})


def load_sweep() -> dict:
    """What `sweep.json` holds, with `frames` as a mapping (goal set, alpha, k) -> (paths, goals, returns)."""
    sweep = json.loads((DATA / "sweep.json").read_text())
    frames = {}
    for name, by_alpha in sweep["frames"].items():
        goals = np.array(sweep["goals"][name])  # (G, 2)
        for alpha, stages in zip(sweep["alphas"], by_alpha, strict=True):
            for k, stage in enumerate([sweep["before"][name], *stages]):
                paths = [np.reshape(path, (-1, 2)) / 1000 for path in stage["paths"]]
                frames[name, alpha, k] = paths, goals, np.array(stage["returns"])
    return sweep | {"frames": frames}


def _as_numbers(stage: Stage) -> dict:
    """Whole thousandths, and no standing still at the end: what the explorer can show."""
    paths = []
    for path in stage.paths:
        away = np.abs(path - path[-1]).max(-1) > 0.002  # (T + 1,)
        last = np.flatnonzero(away).max(initial=-1) + 1
        paths.append(np.rint(1000 * path[: last + 1]).astype(int).ravel().tolist())
    return {"returns": stage.returns.round(2).tolist(), "paths": paths}


def make_sweep() -> dict:
    """Everything in `sweep.json`."""
    config, policy = load_policy(DATA / "maml-1")
    alphas, before, frames = sweep_alphas(), {}, {}
    for name, goals in GOAL_SETS.items():
        runs = [adapt_and_walk(policy, config, goals, alpha) for alpha in alphas]
        before[name] = _as_numbers(runs[0][0])  # no step yet, no step size
        frames[name] = [[_as_numbers(stage) for stage in stages[1:]] for stages in runs]
    first = config.fast_lr[0]
    schedules = {"as trained": (), "halved once": (first, first / 2), "constant": (first,)}
    return {
        "alphas": alphas,
        "goals": {name: goals.round(6).tolist() for name, goals in GOAL_SETS.items()},
        "before": before,
        "frames": frames,
        # Means after k steps of every stored policy (rows) on every set of held-out tasks (columns).
        "crossed": [
            [
                evaluate(*load_policy(DATA / f"maml-{seed}"), seed=tasks).mean.round(3).tolist()
                for tasks in SEEDS
            ]
            for seed in SEEDS
        ],
        "tuning": comparison.make_own_step_sizes("navigation"),
        "schedules": {
            name: evaluate(config, policy, steps=4, step_sizes=sizes, seed=1).mean.round(3).tolist()
            for name, sizes in schedules.items()
        },
    }


def main() -> None:
    write_atomically(DATA / "sweep.json", json.dumps(make_sweep(), separators=(",", ":")).encode() + b"\n")
    comparison.draw_picture(PICTURE)
    for path in (DATA / "sweep.json", PICTURE):
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
