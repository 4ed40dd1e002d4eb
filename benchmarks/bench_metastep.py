"""The meta-step against the textbook: the same data, the same threads, taking turns in one run."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from mamlrl_core.config import Config
from mamlrl_core.metalearner import MetaBatch, MetaLearner
from mamlrl_core.policies import flatten, unflatten
from mamlrl_core.training import make_learner, make_policy, make_sampler

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from textbook import Textbook

THREADS, ROUNDS = 2, 3


def navigation_data() -> tuple[MetaLearner, MetaBatch]:
    """A learner and its first batch, at the start of training on 2-D navigation."""
    config = Config()
    with make_sampler(config) as sampler:
        policy = make_policy(config, sampler)
        learner = make_learner(config, policy)
        sampler.reset_task(sampler.sample_tasks(0))
        return learner, learner.sample(lambda params, phase: sampler.sample(policy, params, phase=phase))


def contestants(learner: MetaLearner, batch: MetaBatch) -> dict[str, Callable[[], object]]:
    theta = learner.policy.params()
    theta = unflatten(flatten(theta).clone(), theta)

    def our_step(curvature_fraction: float) -> None:
        with torch.no_grad():
            for name, tensor in theta.items():
                learner.policy.get_parameter(name).copy_(tensor)
        learner.curvature_fraction = curvature_fraction
        if not learner.step(batch).accepted:
            raise RuntimeError("the benchmark's step was skipped, so its time means nothing")

    return {
        "textbook, graph kept": lambda: Textbook(learner, batch).step(),
        "textbook, adapting in every product": lambda: Textbook(learner, batch, keep_graph=False).step(),
        "MetaLearner.step": lambda: our_step(1.0),
        "MetaLearner.step, curvature_fraction=0.2": lambda: our_step(0.2),
    }


def main() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        times = measure(contestants(*navigation_data()))
    finally:
        torch.set_num_threads(before)
    reference = times["textbook, graph kept"]
    print("One meta-step: 20 tasks x 20 episodes x 100 steps, 2 x 100 tanh units, float32, "
          f"{THREADS} threads, median of {ROUNDS}")  # fmt: skip
    print(f"{'':42}{'seconds':>9}{'speed':>9}")
    for name, seconds in times.items():
        print(f"{name:42}{seconds:>9.2f}{reference / seconds:>8.2f}x")


def measure(functions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median seconds of each function over several rounds, in each of which all of them run."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


if __name__ == "__main__":
    main()
