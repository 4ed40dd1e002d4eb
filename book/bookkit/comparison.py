"""The stored evaluations of 2-D navigation beside the published ones: numbers, their errors, a drawing."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from mamlrl_core.config import PRESETS
from mamlrl_core.evaluation import Evaluation, published_returns

from . import ROOT
from .plots import BLUE, GREEN, GREY, STYLE, VERMILION

DATA = ROOT / "book" / "data" / "navigation"
PRESET = PRESETS["navigation-2d"]
SEEDS = {"maml": (1, 2, 3), "pretrained": (1,), "random": (1,), "oracle": (1,)}  # of the stored runs
COLORS = {"maml": BLUE, "pretrained": VERMILION, "random": GREY, "oracle": GREEN}


def evaluations() -> dict[str, list[Evaluation]]:
    """The stored evaluations: method -> one per training seed."""
    return {
        method: [Evaluation.load(DATA / f"{method}-{seed}" / "evaluation.json") for seed in seeds]
        for method, seeds in SEEDS.items()
    }


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


def draw_picture(path: Path) -> None:
    """The picture of README and front page. It has no background, and reads on a telephone."""
    with mpl.rc_context(STYLE | {"font.size": 13}):
        figure = Figure(figsize=(5.6, 4.2))
        ax = figure.subplots()
        draw_comparison(ax)
        ax.set_ylim(-90, 2)
        lines = {method: mpl.lines.Line2D([], [], color=color, lw=3) for method, color in COLORS.items()}
        ours = mpl.lines.Line2D([], [], color=GREY, marker="o")
        theirs = mpl.lines.Line2D([], [], color=GREY, marker="s", mfc="none", ls=(0, (4, 3)), lw=1.5)
        figure.legend(
            [*lines.values(), ours, theirs],
            ["MAML", *list(lines)[1:], "this package", "published"],
            loc="outside lower center",
            ncols=3,
        )
        figure.savefig(path, metadata={"Date": None, "Creator": None})
