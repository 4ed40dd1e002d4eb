"""How well does a policy adapt? Return after k = 0, 1, ... gradient steps on tasks it was not trained on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from . import __version__
from .checkpoint import write_atomically
from .config import Config, check_settings
from .episodes import BatchEpisodes
from .metrics import finite_or_null
from .policies import MLPPolicy
from .sampler import BatchSampler
from .seeding import Purpose, derive_seed
from .training import make_learner, make_sampler


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

    def __str__(self) -> str:
        config, tasks = self.config, len(self.returns[0])
        sizes = ", ".join(f"{size:.3g}" for size in self.step_sizes) or "none"
        return (
            f"{config.env}, {config.method}, seed {config.seed}, {config.iterations} iterations\n"
            f"{tasks} held-out tasks (seed {self.seed}), {self.episodes_per_task} episodes each; "
            f"steps of size {sizes}"
        )

    def save(self, path: Path) -> None:
        """Write it as JSON. The folder is made if it is missing."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
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
            check_settings(values)  # seed and episodes_per_task, for which a run has rules, too
            returns = np.array(values["returns"], dtype=float)  # None becomes NaN again
            steps = require_step_sizes(values["step_sizes"])
            if returns.ndim != 2 or len(returns) != len(steps) + 1 or returns.shape[1] < 2:
                raise ValueError(f"returns have shape {returns.shape}, steps are {steps}")
            return cls(**{**values, "returns": returns.tolist()})
        except Exception as error:  # there are many ways to be no evaluation
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
    require_step_sizes(step_sizes)
    chosen = [step_sizes[min(k, len(step_sizes) - 1)] if step_sizes else config.step_size(k)
              for k in range(steps)]  # fmt: skip
    root = derive_seed(seed, Purpose.EVALUATION)
    with make_sampler(config, num_tasks=num_tasks, episodes_per_task=episodes_per_task, seed=root) as sampler:
        sampler.reset_task(sampler.sample_tasks(0))
        played = adapt_and_play(config, policy, sampler, chosen)
        returns = [episodes.returns.double().mean(-1).tolist() for episodes in played]  # (K + 1, tasks)
    return Evaluation(config, seed, episodes_per_task, chosen, returns, installed_versions())


def require_step_sizes(sizes: Sequence[float]) -> Sequence[float]:
    if not all(0 < size < math.inf for size in sizes):
        raise ValueError(f"step_sizes must be positive and finite, got {sizes}")
    return sizes


def adapt_and_play(
    config: Config, policy: MLPPolicy, sampler: BatchSampler, step_sizes: Sequence[float]
) -> Iterator[BatchEpisodes]:
    """Adapt ``policy`` to the tasks that ``sampler`` is at: the episodes after k = 0, 1, ... K steps."""
    learner, params = make_learner(config, policy), None
    for k, step_size in enumerate([*step_sizes, None]):
        episodes = sampler.sample(policy, params, phase=k)
        yield episodes
        if step_size is not None:
            params = learner.adapt_all(learner.estimate_advantages(episodes), params, step_size)


def installed_versions() -> dict[str, str]:
    """The versions of the packages that decide about the last bits of a result."""
    versions = {"mamlrl_core": __version__}
    for name in ("torch", "numpy", "gymnasium", "mujoco"):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions
