"""The stored evaluations of 2-D navigation beside the published ones: numbers, their errors, a drawing."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from mamlrl_core.config import PRESETS, Config
from mamlrl_core.evaluation import Evaluation, evaluate, published_returns
from mamlrl_core.policies import MLPPolicy
from mamlrl_core.training import load_policy

from . import ROOT
from .plots import BLUE, GREEN, GREY, STYLE, VERMILION

DATA = ROOT / "book" / "data" / "navigation"
PRESET = PRESETS["navigation-2d"]
SEEDS = {"maml": (1, 2, 3), "pretrained": (1,), "random": (1,), "oracle": (1,)}  # of the stored runs
TUNED = ("pretrained", "random")  # not trained to adapt, so no step size is theirs by training
OWN_STEP_SIZES = "evaluation_own_step_sizes.json"
COLORS = {"maml": BLUE, "pretrained": VERMILION, "random": GREY, "oracle": GREEN}


def evaluations() -> dict[str, list[Evaluation]]:
    """The stored evaluations, each method with step sizes that suit it: method -> one per training seed."""
    return {
        method: [
            Evaluation.load(
                DATA / f"{method}-{seed}" / (OWN_STEP_SIZES if method in TUNED else "evaluation.json")
            )
            for seed in seeds
        ]
        for method, seeds in SEEDS.items()
    }


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


def make_own_step_sizes() -> dict[str, dict]:
    """Tune the methods that were not trained to adapt, and store their evaluations: the scores of every α."""
    scores = {}
    for method in TUNED:
        run = DATA / f"{method}-1"
        config, policy = load_policy(run)
        scores[method] = tune(config, policy)
        alpha = max(scores[method], key=lambda a: np.mean(scores[method][a]))
        evaluate(config, policy, step_sizes=(alpha, alpha / 2), seed=1).save(run / OWN_STEP_SIZES)
    return scores


def over_seeds(seeds: Sequence[Evaluation]) -> tuple[np.ndarray, np.ndarray]:
    """Mean return and its standard error over training seeds, NaN for a single one: (K + 1,) each."""
    means = np.array([evaluation.mean for evaluation in seeds])  # (seeds, K + 1)
    if len(seeds) == 1:
        return means[0], np.full_like(means[0], np.nan)
    return means.mean(0), means.std(0, ddof=1) / np.sqrt(len(seeds))


def over_tasks(seeds: Sequence[Evaluation]) -> tuple[np.ndarray, np.ndarray]:
    """Mean return and its standard error over all tasks, whichever seed they belong to: (K + 1,) each."""
    returns = np.concatenate([evaluation.returns for evaluation in seeds], axis=1)  # (K + 1, seeds · tasks)
    return returns.mean(1), returns.std(1, ddof=1) / np.sqrt(returns.shape[1])


def draw_comparison(ax, methods: Sequence[str] = tuple(SEEDS)) -> None:
    """Return over gradient steps, ours solid, published dashed; errors are over tasks, for both.

    The oracle does not adapt: its level is a line.
    """
    stored, published = evaluations(), published_returns(PRESET.env)
    for method in methods:
        mean, error = over_tasks(stored[method])
        rows = [row for row in published[method] if row["k"] <= 3]
        their_k, theirs, their_error = np.array([(row["k"], row["mean"], row["se"]) for row in rows]).T
        color = COLORS[method]
        if method == "oracle":
            ax.axhline(mean[0], color=color, linewidth=1.5)
            ax.axhline(theirs[0], color=color, linewidth=1.5, linestyle=(0, (4, 3)))
            continue
        style = {"color": color, "capsize": 3, "markersize": 6}
        ax.errorbar(np.arange(len(mean)), mean, error, marker="o", **style)
        ax.errorbar(their_k, theirs, their_error, marker="s", mfc="none", ls=(0, (4, 3)), lw=1.5, **style)
    ax.set(xlabel="gradient steps on the new task", ylabel="return", xticks=range(4))


def draw_legend(figure: Figure) -> None:
    """Below the drawing: colours are methods, line styles are whose numbers they are."""
    methods = [mpl.lines.Line2D([], [], color=color, lw=3) for color in COLORS.values()]
    ours = mpl.lines.Line2D([], [], color=GREY, marker="o")
    theirs = mpl.lines.Line2D([], [], color=GREY, marker="s", mfc="none", ls=(0, (4, 3)), lw=1.5)
    labels = ["MAML", *list(COLORS)[1:], "this package", "published"]
    figure.legend([*methods, ours, theirs], labels, loc="outside lower center", ncols=3)


def draw_picture(path: Path) -> None:
    """The picture of README and front page. It has no background, and reads on a telephone."""
    with mpl.rc_context(STYLE | {"font.size": 13}):
        figure = Figure(figsize=(5.6, 4.2))
        ax = figure.subplots()
        draw_comparison(ax)
        draw_legend(figure)
        ax.set_ylim(-90, 2)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
