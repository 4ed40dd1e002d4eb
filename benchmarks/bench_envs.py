"""Environment steps per second, side by side: our three backends, and Gymnasium's two vector environments.

Every contestant plays the same family with the same policy, one forward pass (a multilayer perceptron of two
layers of 100 units) and one draw per vector step. The contestants take turns, so that a busy moment of the
machine hits all of them, and the median turn of each one counts.

    python -m benchmarks.bench_envs
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from torch import nn

from mamlrl_core.envs import make_vec_env
from mamlrl_core.envs.navigation import Navigation2DEnv
from mamlrl_core.envs.tabular_mdp import TabularMDPEnv

TURNS = 5
TURN_SECONDS = 0.4  # a turn is as many whole episodes as fit, at least one
SLOTS = 400  # 20 tasks of 20 episodes, say


@dataclass
class Contestant:
    name: str
    make: Callable[[], VectorEnv]
    rates: list[float] = field(default_factory=list)  # environment steps per second, one entry per turn

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


def contestants(family: Callable[[], gymnasium.Env]) -> list[Contestant]:
    def subproc(workers: int) -> Callable[[], VectorEnv]:
        return lambda: make_vec_env(family, SLOTS, "subproc", num_workers=workers)

    return [
        Contestant(f"batched, {SLOTS} slots", lambda: make_vec_env(family, SLOTS, "batched")),
        Contestant(f"subproc, {SLOTS} slots, 2 workers", subproc(2)),
        Contestant(f"subproc, {SLOTS} slots, 1 worker", subproc(1)),
        Contestant(f"serial, {SLOTS} slots", lambda: make_vec_env(family, SLOTS, "serial")),
        Contestant("AsyncVectorEnv, 20 envs", lambda: AsyncVectorEnv([family] * 20)),
        Contestant("AsyncVectorEnv, 2 envs", lambda: AsyncVectorEnv([family] * 2)),
        Contestant("SyncVectorEnv, 20 envs", lambda: SyncVectorEnv([family] * 20)),
    ]


class Policy:
    """Observations to sampled actions, as arrays: a Gaussian for a continuous action, else a categorical."""

    def __init__(self, family: gymnasium.Env):
        self.discrete = isinstance(family.action_space, gymnasium.spaces.Discrete)
        outputs = int(family.action_space.n) if self.discrete else family.action_space.shape[0]
        inputs = family.observation_space.shape[0]
        self.network = nn.Sequential(
            nn.Linear(inputs, 100), nn.Tanh(), nn.Linear(100, 100), nn.Tanh(), nn.Linear(100, outputs)
        )

    @torch.inference_mode()
    def __call__(self, observations: np.ndarray) -> np.ndarray:
        output = self.network(torch.from_numpy(observations))
        if self.discrete:
            return torch.multinomial(output.softmax(-1), 1)[:, 0].numpy()
        return (output + torch.randn_like(output)).numpy()


def play(envs: VectorEnv, policy: Policy, horizon: int, seconds: float) -> float:
    """Whole episodes for about so many seconds; the environment steps per second, resets included."""
    started, steps = time.perf_counter(), 0
    while steps == 0 or time.perf_counter() - started < seconds:
        observations, _ = envs.reset(seed=steps)
        for _ in range(horizon):
            observations, *_ = envs.step(policy(observations))
        steps += envs.num_envs * horizon
    return steps / (time.perf_counter() - started)


def measure(title: str, family: Callable[[], gymnasium.Env]) -> list[Contestant]:
    env = family()
    policy = Policy(env)
    field_of = contestants(family)
    built = [contestant.make() for contestant in field_of]
    try:
        for envs in built:
            play(envs, policy, env.horizon, seconds=0.0)  # warm up
        for _ in range(TURNS):
            for contestant, envs in zip(field_of, built, strict=True):
                contestant.rates.append(play(envs, policy, env.horizon, TURN_SECONDS))
    finally:
        for envs in built:
            envs.close()
    report(title, field_of)
    return field_of


def report(title: str, field_of: list[Contestant]) -> None:
    rivals = {contestant.name: contestant.rate for contestant in field_of if "Async" in contestant.name}
    print(f"\n{title}: environment steps per second, policy included (median of {TURNS} turns)\n")
    print(f"{'':34}{'steps/s':>10}{'spread':>8}" + "".join(f"{'× ' + name:>28}" for name in rivals))
    for contestant in field_of:
        spread = (max(contestant.rates) - min(contestant.rates)) / contestant.rate
        ratios = "".join(f"{contestant.rate / rival:>28.1f}" for rival in rivals.values())
        print(f"{contestant.name:34}{contestant.rate:>10,.0f}{spread:>8.0%}{ratios}")


def main() -> None:
    torch.set_num_threads(1)  # the networks are small, and the workers need the processors
    torch.manual_seed(0)
    measure("2-D navigation (horizon 100)", Navigation2DEnv)
    measure("Tabular MDP (horizon 10)", TabularMDPEnv)


if __name__ == "__main__":
    main()
