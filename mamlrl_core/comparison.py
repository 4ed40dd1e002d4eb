"""Evaluations held against each other and against the published figures: as numbers, and as a drawing.

Two different questions have two different errors. How much would the mean change with other *tasks*? That
is the error the published figures come with. And how much with another *training run*? That takes several
seeds, and is the one that says whether a method works.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from .config import PRESETS
from .evaluation import Evaluation

PUBLISHED = Path(__file__).parent / "data" / "finn2017_returns.json"
# Distinct also to colour-blind eyes (Okabe and Ito 2008), and against white in print.
COLOURS = {"maml": "#0072B2", "pretrained": "#D55E00", "random": "#595959", "oracle": "#009E73"}


@dataclass(frozen=True)
class Curve:
    """Return of a method after k = 0, 1, ... gradient steps. Every array is (K + 1,)."""

    mean: np.ndarray
    over_tasks: np.ndarray  # standard error of the mean, over tasks
    over_seeds: np.ndarray  # standard error of the mean, over training seeds; NaN for a single one
    seeds: int = 1

    def interval(self, confidence: float = 0.95) -> np.ndarray:
        """Where the mean over all training seeds lies, by Student's t: (K + 1, 2), NaN for a single seed.

        With three seeds it reaches 4.3 standard errors to either side; that is what three seeds are worth.
        """
        reach = stats.t.ppf((1 + confidence) / 2, self.seeds - 1) * self.over_seeds
        return np.stack([self.mean - reach, self.mean + reach], axis=1)


def pool(evaluations: Sequence[Evaluation]) -> Curve:
    """The evaluations of one method, which differ in the training seed and in nothing else, as one curve."""
    settings = {(replace(e.config, seed=0, backend="batched"), tuple(e.step_sizes)) for e in evaluations}
    seeds = len({e.config.seed for e in evaluations})
    if len(settings) > 1 or seeds < len(evaluations):
        method = evaluations[0].method
        raise ValueError(f"evaluations of {method!r} must differ in the training seed and in nothing else")
    means = np.array([e.mean for e in evaluations])  # (seeds, K + 1)
    returns = np.concatenate([e.returns for e in evaluations], axis=1)  # (K + 1, seeds · tasks)
    over_seeds = means.std(0, ddof=1) / math.sqrt(seeds) if seeds > 1 else np.full_like(means[0], np.nan)
    over_tasks = returns.std(1, ddof=1) / math.sqrt(returns.shape[1])
    return Curve(means.mean(0), over_tasks, over_seeds, seeds)


def curves(evaluations: Sequence[Evaluation]) -> dict[str, Curve]:
    """One curve per method, in the order of ``COLOURS``.

    Raises:
        ValueError: for evaluations of several families, or of one method that differ in more than the seed.
    """
    envs = {e.env for e in evaluations}
    if len(envs) != 1:
        raise ValueError(f"only one task family can be compared, got {sorted(envs) or 'no evaluation'}")
    of = {method: [e for e in evaluations if e.method == method] for method in COLOURS}
    return {method: pool(seeds) for method, seeds in of.items() if seeds}


def published_curves(env: str) -> dict[str, Curve]:
    """What Finn et al. (2017) measured on a family, one seed each, by method; nothing for other families."""
    tasks = json.loads(PUBLISHED.read_text())["tasks"]
    for name, preset in PRESETS.items():
        if preset.env == env and name in tasks:
            rows = tasks[name]["methods"]
            columns = {m: np.array([(row["mean"], row["se"]) for row in rows[m]]).T for m in rows}
            return {m: Curve(mean, se, np.full_like(mean, np.nan)) for m, (mean, se) in columns.items()}
    return {}


def normalised(curve: Curve, beside: dict[str, Curve]) -> np.ndarray:
    """How much of the way from doing nothing to knowing the task: 0 is the untrained policy, 1 the oracle.

    (R_k - R_random,0) / (R_oracle - R_random,0), which makes families, and simulators, comparable. NaN if
    either end is missing.
    """
    if not {"random", "oracle"} <= set(beside):
        return np.full_like(curve.mean, np.nan)
    low, high = beside["random"].mean[0], beside["oracle"].mean[0]
    return (curve.mean - low) / (high - low)


def as_table(evaluations: Sequence[Evaluation]) -> str:
    """Every method after every number of steps, ours and the published, as plain text."""
    ours = curves(evaluations)
    theirs = published_curves(evaluations[0].env)
    lines = [
        f"{'method':<10}{'k':>3}{'seeds':>7}{'return':>9}{'± tasks':>9}{'95 % over seeds':>18}{'gap':>6}"
        f"{'published':>11}{'± tasks':>9}{'gap':>6}"
    ]
    for method, curve in ours.items():
        other = theirs.get(method)
        for k, (low, high) in enumerate(curve.interval()):
            spread = f"{low:.1f} to {high:.1f}" if curve.seeds > 1 else "-"
            line = f"{method:<10}{k:>3}{curve.seeds:>7}{curve.mean[k]:>9.2f}{curve.over_tasks[k]:>9.2f}"
            line += f"{spread:>18}{in_two_digits(normalised(curve, ours)[k]):>6}"
            if other is not None and k < len(other.mean):
                line += f"{other.mean[k]:>11.2f}{other.over_tasks[k]:>9.2f}"
                line += f"{in_two_digits(normalised(other, theirs)[k]):>6}"
            lines.append(line)
    return "\n".join(lines)


def in_two_digits(x: float) -> str:
    return "-" if math.isnan(x) else f"{x:.2f}"


def plot(evaluations: Sequence[Evaluation], axes: Any) -> None:
    """Draw return over k into Matplotlib ``axes``: seeds of a method pooled, published curves dashed.

    The error bars are standard errors: over the training seeds where there are several, else over the tasks.
    """
    ours = curves(evaluations)
    theirs = published_curves(evaluations[0].env)
    for index, (method, colour) in enumerate(COLOURS.items()):
        shift = 0.04 * (index - 1.5)  # beside each other, not on top of each other
        if method in ours:
            curve = ours[method]
            error = curve.over_seeds if curve.seeds > 1 else curve.over_tasks
            label = f"{method}, {curve.seeds} seeds" if curve.seeds > 1 else method
            k = np.arange(len(curve.mean))
            axes.errorbar(k + shift, curve.mean, error, color=colour, marker="o", capsize=3, label=label)
        if method in theirs:
            curve = theirs[method]
            k = np.arange(len(curve.mean))
            axes.errorbar(k + shift, curve.mean, curve.over_tasks, color=colour, linestyle="--", marker="s",
                          mfc="white", alpha=0.6, label=f"{method}, published")  # fmt: skip
    axes.set(title=evaluations[0].env, xlabel="gradient steps k at test time", ylabel="return")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.2)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
