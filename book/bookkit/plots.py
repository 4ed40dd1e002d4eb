"""Figures of one hand: the same colours, bytes that are the same on every run, and no background.

Text and axes are a grey that reads on white and on black alike, since a figure in the page is a picture that
cannot know the reader's theme. Say what a figure shows in its cell's metadata (`mystnb`: `image.alt`,
`figure.caption`).
"""

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib import pyplot as plt

# Okabe and Ito's colours for every kind of colour vision, without the yellow and the black, which fade on one
# theme.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = COLORS
GREY = "#7A7A7A"

STYLE = {
    "axes.edgecolor": GREY,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": GREY,
    "axes.prop_cycle": cycler(color=COLORS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": GREY,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "figure.figsize": (7.0, 3.6),
    "font.size": 11,
    "grid.alpha": 0.25,
    "grid.color": GREY,
    "legend.frameon": False,
    "legend.labelcolor": GREY,
    "lines.linewidth": 2.0,
    "savefig.facecolor": "none",
    "svg.fonttype": "path",  # the same picture on a machine without the font
    "svg.hashsalt": "mamlrl",  # fixed element ids
    "text.color": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
}


def setup_plots() -> None:
    """Draw inline as SVG, in the book's style. Called by `bookkit.setup()`."""
    mpl.rcParams.update(STYLE)
    try:
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:
        return
    plt.switch_backend("module://matplotlib_inline.backend_inline")
    mpl.rcParams.update(STYLE)
    set_matplotlib_formats("svg", bbox_inches=None, metadata={"Date": None, "Creator": None})


def learning_curve(ax, values, label: str, color: str | None = None, x=None) -> None:
    """A mean curve over runs with a band of one standard error.

    values: (runs, points), or (points,) for a single run, drawn without a band. x: (points,), counted from 1
    if absent.
    """
    values = np.atleast_2d(np.asarray(values, dtype=float))  # (R, I)
    x = np.arange(1, values.shape[1] + 1) if x is None else np.asarray(x)
    mean = values.mean(axis=0)
    (line,) = ax.plot(x, mean, label=label, color=color)
    if len(values) > 1:
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        ax.fill_between(x, mean - error, mean + error, color=line.get_color(), alpha=0.2, linewidth=0)


def trajectories(ax, paths, goals, limit: float = 0.7) -> None:
    """Paths through the plane, each in its goal's colour: a dot where it starts, a cross at the goal.

    paths: a list of (T, 2) positions. goals: (G, 2), the goal of each path.
    """
    for i, (path, goal) in enumerate(zip(paths, goals, strict=True)):
        color = COLORS[i % len(COLORS)]
        path = np.asarray(path)
        ax.plot(path[:, 0], path[:, 1], color=color, linewidth=1.2)
        ax.plot(*path[-1], "o", color=color, markersize=4)
        ax.plot(*goal, "x", color=color, markersize=9, markeredgewidth=2.5)
    ax.plot(0, 0, "o", color=GREY, markersize=6)
    ax.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", xlabel="x", ylabel="y")
