"""Stored evaluations beside the published ones: loading, tuning what was not trained to adapt, drawing.

`python -m bookkit.comparison FAMILY` in `book/` tunes the methods of a family that were not trained to adapt,
evaluates them once more, and keeps all scores in `data/FAMILY/tuning.json`.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from mamlrl_core.checkpoint import write_atomically
from mamlrl_core.comparison import curves, published_curves
from mamlrl_core.config import Config
from mamlrl_core.envs.base import Task
from mamlrl_core.evaluation import Evaluation, evaluate
from mamlrl_core.policies import MLPPolicy
from mamlrl_core.seeding import Purpose, derive_seed
from mamlrl_core.training import load_policy, make_sampler

from . import ROOT
from .plots import BLUE, GREEN, GREY, STYLE, VERMILION

DATA = ROOT / "book" / "data"
METHODS = {"maml": BLUE, "pretrained": VERMILION, "random": GREY, "oracle": GREEN}
TUNED = ("pretrained", "random")  # not trained to adapt, so no step size is theirs by training
OWN_STEP_SIZES = "evaluation_own_step_sizes.json"


def evaluations(family: str) -> dict[str, list[Evaluation]]:
    """The stored evaluations of a family: method -> one per training seed, each with step sizes that suit it.

    family: the folder under `book/data`, whose folders are named METHOD-SEED.
    """
    stored = {}
    for method in METHODS:
        finished = sorted((DATA / family).glob(f"{method}-*/evaluation.json"))
        own = [path.with_name(OWN_STEP_SIZES) for path in finished]
        files = [mine if mine.exists() else path for mine, path in zip(own, finished, strict=True)]
        if files:
            stored[method] = [Evaluation.load(path) for path in files]
    return stored


def held_out_tasks(evaluation: Evaluation) -> list[Task]:
    """The tasks of an evaluation, drawn again from its seed."""
    tasks, root = len(evaluation.returns[0]), derive_seed(evaluation.seed, Purpose.EVALUATION)
    with make_sampler(evaluation.config, num_tasks=tasks, episodes_per_task=1, seed=root) as sampler:
        return sampler.sample_tasks(0)


def tune(config: Config, policy: MLPPolicy) -> dict[float, list[float]]:
    """Returns after 1, 2, 3 steps of sizes α, α/2, α/2, for some α, on tasks used for nothing else."""
    few = {"num_tasks": 20, "episodes_per_task": 20, "seed": 100}
    return {
        alpha: evaluate(config, policy, steps=3, step_sizes=(alpha, alpha / 2), **few)
        .mean[1:]
        .round(3)
        .tolist()
        for alpha in (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
    }


def make_own_step_sizes(family: str) -> dict[str, dict]:
    """Tune the methods that were not trained to adapt, and store their evaluations: the scores of every α."""
    scores = {}
    for method in TUNED:
        run = DATA / family / f"{method}-1"
        config, policy = load_policy(run)
        scores[method] = tune(config, policy)
        alpha = max(scores[method], key=lambda a: np.mean(scores[method][a]))
        evaluate(config, policy, step_sizes=(alpha, alpha / 2), seed=1).save(run / OWN_STEP_SIZES)
    return scores


def draw_comparison(ax, family: str, methods: Sequence[str] = tuple(METHODS)) -> None:
    """Return over gradient steps, ours solid, published dashed; errors are over tasks, for both.

    The oracle does not adapt: its level is a line.
    """
    stored = [one for seeds in evaluations(family).values() for one in seeds]
    ours, theirs = curves(stored), published_curves(stored[0].env)
    for method in methods:
        color = METHODS[method]
        for curve, line, marker in ((ours.get(method), "-", "o"), (theirs.get(method), (0, (4, 3)), "s")):
            if curve is None:
                continue
            if method == "oracle":
                ax.axhline(curve.mean[0], color=color, linewidth=1.5, linestyle=line)
                continue
            mean, error = curve.mean[:4], curve.over_tasks[:4]
            style = {"color": color, "capsize": 3, "markersize": 6, "marker": marker, "linestyle": line}
            if marker == "s":
                style |= {"mfc": "none", "linewidth": 1.5}
            ax.errorbar(np.arange(len(mean)), mean, error, **style)
    ax.set(xlabel="gradient steps on the new task", ylabel="return", xticks=range(4))


def draw_legend(figure: Figure) -> None:
    """Below the drawing: colours are methods, line styles are whose numbers they are."""
    methods = [mpl.lines.Line2D([], [], color=color, lw=3) for color in METHODS.values()]
    ours = mpl.lines.Line2D([], [], color=GREY, marker="o")
    theirs = mpl.lines.Line2D([], [], color=GREY, marker="s", mfc="none", ls=(0, (4, 3)), lw=1.5)
    labels = ["MAML", *list(METHODS)[1:], "this package", "published"]
    figure.legend([*methods, ours, theirs], labels, loc="outside lower center", ncols=3)


def draw_picture(path: Path) -> None:
    """The picture of README and front page. It has no background, and reads on a telephone."""
    with mpl.rc_context(STYLE | {"font.size": 13}):
        figure = Figure(figsize=(5.6, 4.2))
        ax = figure.subplots()
        draw_comparison(ax, "navigation")
        draw_legend(figure)
        ax.set_ylim(-90, 2)
        figure.savefig(path, metadata={"Date": None, "Creator": None})


def main(family: str) -> None:
    scores = make_own_step_sizes(family)
    write_atomically(DATA / family / "tuning.json", json.dumps(scores).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
