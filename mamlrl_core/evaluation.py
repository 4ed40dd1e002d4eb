"""How well does a policy adapt? Return after k = 0, 1, ... gradient steps on tasks it was not trained on."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import __version__
from .checkpoint import write_atomically
from .config import PRESETS, Config
from .metrics import finite_or_null
from .policies import MLPPolicy
from .seeding import Purpose, derive_seed
from .training import make_learner, make_sampler

PUBLISHED = Path(__file__).parent / "data" / "finn2017_returns.json"
# Distinct also to colour-blind eyes (Okabe and Ito 2008), and against white in print.
COLOURS = {"maml": "#0072B2", "pretrained": "#D55E00", "random": "#595959", "oracle": "#009E73"}


@dataclass(frozen=True)
class Evaluation:
    """The returns of one policy on a set of held-out tasks, and all that is needed to measure them again."""

    config: Config  # the settings that led to the policy
    seed: int  # of the held-out tasks and their episodes
    episodes_per_task: int
    step_sizes: list[float]  # of the adaptation steps 1..K
    returns: list[list[float]]  # (K + 1, tasks), mean over the episodes of a task after k steps
    versions: dict[str, str]  # of the packages that it was measured with

    @property
    def env(self) -> str:
        return self.config.env

    @property
    def method(self) -> str:
        """ "maml", "pretrained", "random" or "oracle"."""
        return self.config.method

    @property
    def mean(self) -> np.ndarray:
        """Mean return over tasks after k steps: (K + 1,)."""
        return np.mean(self.returns, axis=1)

    @property
    def standard_error(self) -> np.ndarray:
        """Standard error of that mean, over tasks: (K + 1,)."""
        return np.std(self.returns, axis=1, ddof=1) / math.sqrt(len(self.returns[0]))

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        text = json.dumps(finite_or_null(asdict(self)), allow_nan=False)
        write_atomically(Path(path), f"{text}\n".encode())

    @classmethod
    def load(cls, path: Path) -> Evaluation:
        """Read what ``save`` has written.

        Raises:
            OSError: if the file is missing or cannot be read.
            ValueError: if it holds something else.
        """
        content = Path(path).read_bytes()
        try:
            values = json.loads(content)
            values["config"] = Config.from_dict(values["config"])
            returns = np.array(values["returns"], dtype=float)  # None becomes NaN again
            if returns.ndim != 2 or len(returns) != len(values["step_sizes"]) + 1:
                raise ValueError(f"returns have shape {returns.shape}, steps are {values['step_sizes']}")
            return cls(**{**values, "returns": returns.tolist()})
        except (ValueError, TypeError, KeyError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path} was not written by evaluate ({reason})") from error


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

    Step k plays ``episodes_per_task`` episodes of every task; their mean return is the score after k steps,
    and they are what step k + 1 learns from, as in the published experiments.

    Args:
        config: the settings that the policy was trained with.
        num_tasks: at least 2, for there to be a standard error.
        steps: gradient steps K, which may be more than in training.
        step_sizes: of these steps, the last one repeating; the schedule of ``config`` if empty.
        seed: of the tasks and episodes. They share no random stream with any training run.
    """
    if num_tasks < 2:
        raise ValueError(f"num_tasks must be at least 2, got {num_tasks}")
    if steps < 0:
        raise ValueError(f"steps must be at least 0, got {steps}")
    if not all(0 < size < math.inf for size in step_sizes):
        raise ValueError(f"step_sizes must be positive and finite, got {step_sizes}")
    chosen = [step_sizes[min(k, len(step_sizes) - 1)] if step_sizes else config.step_size(k)
              for k in range(steps)]  # fmt: skip
    learner = make_learner(config, policy)
    root = derive_seed(seed, Purpose.EVALUATION)
    params, returns = None, []
    with make_sampler(config, num_tasks=num_tasks, episodes_per_task=episodes_per_task, seed=root) as sampler:
        sampler.reset_task(sampler.sample_tasks(0))
        for k in range(steps + 1):
            episodes = sampler.sample(policy, params, phase=k)
            returns.append(episodes.returns.double().mean(-1).tolist())  # (tasks,)
            if k < steps:
                episodes = learner.estimate_advantages(episodes)
                params = learner.adapt_all(episodes, params, chosen[k])
    versions = {"mamlrl_core": __version__, "torch": str(torch.__version__), "numpy": np.__version__}
    return Evaluation(config, seed, episodes_per_task, chosen, returns, versions)


def published_returns(env: str) -> dict[str, list[dict[str, float]]]:
    """What Finn et al. (2017) measured on a family: method -> [{"k", "mean", "se"}, ...], or nothing."""
    tasks = json.loads(PUBLISHED.read_text())["tasks"]
    for name, preset in PRESETS.items():
        if preset.env == env and name in tasks:
            return tasks[name]["methods"]
    return {}


def as_table(evaluation: Evaluation) -> str:
    """The scores as plain text, beside the published ones where there are any."""
    config, tasks = evaluation.config, len(evaluation.returns[0])
    published = {row["k"]: row for row in published_returns(config.env).get(config.method, [])}
    lines = [
        f"{config.env}, {config.method}, seed {config.seed}, {config.iterations} iterations",
        f"{tasks} held-out tasks (seed {evaluation.seed}), {evaluation.episodes_per_task} episodes each",
        "  k  step size     return   ± error   published",
    ]
    for k, (mean, error) in enumerate(zip(evaluation.mean, evaluation.standard_error, strict=True)):
        size = f"{evaluation.step_sizes[k - 1]:.3g}" if k else "-"
        beside = f"{published[k]['mean']:.2f} ± {published[k]['se']:.2f}" if k in published else "-"
        lines.append(f"{k:>3}  {size:>9}  {mean:>9.2f}   ± {error:<5.2f}   {beside}")
    return "\n".join(lines)


def plot(evaluations: Sequence[Evaluation], axes: Any) -> None:
    """Draw return over k into Matplotlib ``axes``: seeds of a method pooled, published curves dashed.

    The error bars are standard errors: over the training seeds where there are several, else over the tasks.

    Raises:
        ValueError: for evaluations of several families, or of one method that differ in more than the seed.
    """
    envs = {evaluation.env for evaluation in evaluations}
    if len(envs) != 1:
        raise ValueError(f"a plot shows one task family, got {sorted(envs) or 'no evaluation'}")
    (env,) = envs
    published = published_returns(env)
    for index, (method, colour) in enumerate(COLOURS.items()):
        shift = 0.04 * (index - 1.5)  # beside each other, not on top of each other
        seeds = [evaluation for evaluation in evaluations if evaluation.method == method]
        if seeds:
            mean, error = pool(seeds)
            label = f"{method}, {len(seeds)} seeds" if len(seeds) > 1 else method
            k = np.arange(len(mean))
            axes.errorbar(k + shift, mean, error, color=colour, marker="o", capsize=3, label=label)
        if method in published:
            k, mean, error = np.array([(row["k"], row["mean"], row["se"]) for row in published[method]]).T
            axes.errorbar(k + shift, mean, error, color=colour, linestyle="--", marker="s", mfc="white",
                          alpha=0.6, label=f"{method}, published")  # fmt: skip
    axes.set(title=env, xlabel="gradient steps k at test time", ylabel="return")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.2)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def pool(seeds: Sequence[Evaluation]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error of one method after k steps, over its training seeds: (K + 1,) each."""
    settings = {(replace(e.config, seed=0, backend="batched"), tuple(e.step_sizes)) for e in seeds}
    if len(settings) > 1 or len({e.config.seed for e in seeds}) < len(seeds):
        method = seeds[0].method
        raise ValueError(f"evaluations of {method!r} must differ in the training seed and in nothing else")
    if len(seeds) == 1:
        return seeds[0].mean, seeds[0].standard_error
    means = np.array([evaluation.mean for evaluation in seeds])  # (seeds, K + 1)
    return means.mean(0), means.std(0, ddof=1) / math.sqrt(len(seeds))
