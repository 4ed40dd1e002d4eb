"""How well does a policy adapt? Return after k = 0, 1, ... gradient steps on tasks it was not trained on."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .config import PRESETS, Config
from .policies import MLPPolicy
from .seeding import Purpose, derive_seed
from .training import make_learner, make_sampler

PUBLISHED = Path(__file__).parent / "data" / "finn2017_returns.json"


@dataclass(frozen=True)
class Evaluation:
    """The returns of one policy on a set of held-out tasks."""

    env: str
    method: str  # "maml", "pretrained", "random" or "oracle"
    train_seed: int
    iterations: int
    seed: int  # of the held-out tasks and their episodes
    episodes_per_task: int
    step_sizes: list[float]  # of the adaptation steps 1..K
    returns: list[list[float]]  # (K + 1, tasks), mean over the episodes of a task after k steps

    @property
    def mean(self) -> np.ndarray:
        """Mean return over tasks after k steps: (K + 1,)."""
        return np.mean(self.returns, axis=1)

    @property
    def standard_error(self) -> np.ndarray:
        """Standard error of that mean, over tasks: (K + 1,)."""
        return np.std(self.returns, axis=1, ddof=1) / math.sqrt(len(self.returns[0]))


def evaluate(
    config: Config,
    policy: MLPPolicy,
    *,
    num_tasks: int = 40,
    episodes_per_task: int = 40,
    steps: int = 3,
    step_sizes: Sequence[float] = (),
    seed: int = 0,
) -> Evaluation:
    """Adapt ``policy`` to held-out tasks and measure its return after every step.

    Step k plays ``episodes_per_task`` episodes of every task; their mean return is the score after k steps, and
    they are what step k + 1 learns from, as in the published experiments.

    Args:
        config: the settings the policy was trained with.
        step_sizes: of the adaptation steps, the last one repeating; the schedule of ``config`` if empty.
        seed: of the tasks and episodes. They share no random stream with any training run.
    """
    if num_tasks < 2 or steps < 0:
        raise ValueError(f"need at least 2 tasks and 0 steps, got num_tasks={num_tasks}, steps={steps}")
    schedule = Config(fast_lr=config.fast_lr, test_step_sizes=tuple(step_sizes) or config.test_step_sizes)
    chosen = [schedule.step_size(k) for k in range(steps)]
    learner = make_learner(config, policy)
    root = derive_seed(seed, Purpose.EVALUATION)
    params, returns = None, []
    with make_sampler(config, num_tasks=num_tasks, episodes_per_task=episodes_per_task, seed=root) as sampler:
        sampler.reset_task(sampler.sample_tasks(0))
        for k in range(steps + 1):
            episodes = sampler.sample(policy, params, phase=k)
            returns.append(episodes.returns.double().mean(-1).tolist())
            if k < steps:
                episodes = learner.estimate_advantages(episodes)
                params = learner.adapt_all((episodes,), params, fast_lr=chosen[k])
    return Evaluation(
        config.env, config.method, config.seed, config.iterations, seed, episodes_per_task, chosen, returns
    )


def published_returns(env: str) -> dict[str, list[dict[str, float]]]:
    """What Finn et al. (2017) measured on a family: method -> [{"k", "mean", "se"}, ...]; empty if nothing."""
    tasks = json.loads(PUBLISHED.read_text())["tasks"]
    for name, preset in PRESETS.items():
        if preset.env == env and name in tasks:
            return tasks[name]["methods"]
    return {}


def as_table(evaluation: Evaluation) -> str:
    """The scores as plain text, beside the published ones where there are any."""
    published = {row["k"]: row for row in published_returns(evaluation.env).get(evaluation.method, [])}
    lines = [f"{evaluation.env}, {evaluation.method}, training seed {evaluation.train_seed}, "
             f"{len(evaluation.returns[0])} held-out tasks, {evaluation.episodes_per_task} episodes each",
             "  k  step size     return  ± error   published"]  # fmt: skip
    for k, (mean, error) in enumerate(zip(evaluation.mean, evaluation.standard_error, strict=True)):
        size = f"{evaluation.step_sizes[k - 1]:.3g}" if k else "-"
        beside = f"{published[k]['mean']:.2f} ± {published[k]['se']:.2f}" if k in published else "-"
        lines.append(f"{k:>3}  {size:>9}  {mean:>9.2f}  ± {error:<6.2f}  {beside}")
    return "\n".join(lines)


def plot(evaluations: Sequence[Evaluation], axes: Any) -> None:
    """Draw return over k into Matplotlib ``axes``, training seeds of a method together, published curves dashed.

    The error bars are over the training seeds where there are several, and over the tasks where there is one.
    """
    envs = {evaluation.env for evaluation in evaluations}
    if len(envs) != 1:
        raise ValueError(f"a plot shows one task family, got {sorted(envs)}")
    published = published_returns(envs.pop())
    for index, method in enumerate(("maml", "pretrained", "random", "oracle")):
        colour = ("#0072B2", "#E69F00", "#7F7F7F", "#009E73")[index]
        seeds = [evaluation for evaluation in evaluations if evaluation.method == method]
        if seeds:
            shortest = min(len(evaluation.returns) for evaluation in seeds)
            means = np.array([evaluation.mean[:shortest] for evaluation in seeds])  # (seeds, K + 1)
            error = means.std(0, ddof=1) / math.sqrt(len(seeds)) if len(seeds) > 1 else seeds[0].standard_error
            axes.errorbar(range(shortest), means.mean(0), error, color=colour, marker="o", capsize=3, label=method)
        if method in published:
            k, mean, error = zip(*((row["k"], row["mean"], row["se"]) for row in published[method]), strict=True)
            axes.errorbar(k, mean, error, color=colour, ls="--", marker="s", mfc="none", alpha=0.7,
                          label=f"{method}, published")  # fmt: skip
    axes.set(xlabel="gradient steps k at test time", ylabel="return")
    axes.legend(fontsize="small")
