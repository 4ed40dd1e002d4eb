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
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial

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
    episode: Callable[[int], int]  # from the horizon to the steps taken: plays an episode in every slot
    rates: list[float] = field(default_factory=list)  # environment steps per second, one entry per turn

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    def take_turn(self, horizon: int, seconds: float) -> None:
        """Whole episodes for about so many seconds, at least one; resets are included."""
        started, steps = time.perf_counter(), 0
        while steps == 0 or time.perf_counter() - started < seconds:
            steps += self.episode(horizon)
        self.rates.append(steps / (time.perf_counter() - started))


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
        output = self.network(torch.as_tensor(observations, dtype=torch.float32))
        if self.discrete:
            return torch.multinomial(output.softmax(-1), 1)[:, 0].numpy()
        return (output + torch.randn_like(output)).numpy()


def play(envs: VectorEnv, policy: Policy, horizon: int) -> int:
    """An episode in every slot; the number of environment steps."""
    observations, _ = envs.reset(seed=0)
    for _ in range(horizon):
        observations, *_ = envs.step(policy(observations))
    return envs.num_envs * horizon


def race(field_of: list[Contestant], horizon: int, turns: int, seconds: float) -> None:
    """Let the contestants take turns, after a short episode to warm up."""
    for contestant in field_of:
        contestant.episode(min(10, horizon))
    for _ in range(turns):
        for contestant in field_of:
            contestant.take_turn(horizon, seconds)


def report(title: str, field_of: list[Contestant], rivals: dict[str, str]) -> None:
    """Print a row per contestant, and a column per rival (heading: name) with the ratio of the rates."""
    rates = {contestant.name: contestant.rate for contestant in field_of}
    print(f"\n{title} (median of {len(field_of[0].rates)} turns)\n")
    print(f"{'':38}{'steps/s':>10}{'spread':>8}" + "".join("   " + heading for heading in rivals))
    for contestant in field_of:
        spread = (max(contestant.rates) - min(contestant.rates)) / contestant.rate
        row = f"{contestant.name:38}{contestant.rate:>10,.0f}{spread:>8.0%}"
        for heading, name in rivals.items():
            row += f"{contestant.rate / rates[name]:>{len(heading) + 3}.3g}"
        print(row)


def vector_envs(family: Callable[[], gymnasium.Env]) -> dict[str, VectorEnv]:
    return {
        f"batched, {SLOTS} slots": make_vec_env(family, SLOTS, "batched"),
        f"subproc, {SLOTS} slots, 2 workers": make_vec_env(family, SLOTS, "subproc", num_workers=2),
        f"subproc, {SLOTS} slots, 1 worker": make_vec_env(family, SLOTS, "subproc", num_workers=1),
        f"serial, {SLOTS} slots": make_vec_env(family, SLOTS, "serial"),
        "AsyncVectorEnv, 20 envs": AsyncVectorEnv([family] * 20),
        "AsyncVectorEnv, 2 envs": AsyncVectorEnv([family] * 2),
        "SyncVectorEnv, 20 envs": SyncVectorEnv([family] * 20),
    }


def measure(title: str, family: Callable[[], gymnasium.Env]) -> None:
    env = family()
    policy = Policy(env)
    with ExitStack() as stack:
        built = {name: stack.enter_context(closing(envs)) for name, envs in vector_envs(family).items()}
        field_of = [Contestant(name, partial(play, envs, policy)) for name, envs in built.items()]
        race(field_of, env.horizon, TURNS, TURN_SECONDS)
    rivals = {f"× {name}": name for name in built if "Async" in name}
    report(f"{title}: environment steps per second, policy included", field_of, rivals)


def main() -> None:
    torch.set_num_threads(1)  # the networks are small, and the workers need the processors
    torch.manual_seed(0)
    measure("2-D navigation (horizon 100)", Navigation2DEnv)
    measure("Tabular MDP (horizon 10)", TabularMDPEnv)


if __name__ == "__main__":
    main()
