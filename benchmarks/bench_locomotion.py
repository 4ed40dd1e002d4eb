"""How near the MuJoCo families come to the engine's own speed, and how near the usual ways come.

The limit is ``bare_engine``: the same states and controls, and nothing but the engine. "No policy" plays
recorded actions; the others ask the policy of ``bench_envs`` at every step. Only ``BatchSampler`` has its
own: it does what training does between two updates, with a parameter set per task and training's threads.

Serial, worker and Gymnasium environments are so much slower that they get fewer slots, to save time. More
would hardly make them faster.

    python -m benchmarks.bench_locomotion
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, VectorEnv

from mamlrl_core import BatchSampler, NormalMLPPolicy
from mamlrl_core.envs import BatchedVecEnv, make_vec_env
from mamlrl_core.envs.engine import silent_engine
from mamlrl_core.envs.locomotion import AntDirEnv, HalfCheetahDirEnv
from mamlrl_core.envs.processes import available_cpus

from .bare_engine import BareEngine, Rollout
from .bench_envs import Contestant, Policy, play, race, report

TURNS = 3  # of one episode per slot
HORIZON = 200
TASKS, EPISODES = 40, 20  # the published setting
FEW_SLOTS = 80
LIMIT = "the limit: the engine alone"


def record(envs: BatchedVecEnv, policy: Policy) -> tuple[np.ndarray, Rollout]:
    """Play an episode in every slot: the actions (T, S, A), and what the engine did with them."""
    observations, _ = envs.reset(seed=0)
    starts, lengths = envs._state.copy(), np.zeros(envs.num_envs, dtype=int)
    actions, done = [], np.zeros(envs.num_envs, dtype=bool)
    for _ in range(HORIZON):
        lengths += ~done
        actions.append(policy(observations))
        observations, _, terminated, truncated, _ = envs.step(actions[-1])
        done = terminated | truncated
    controls = np.clip(np.stack(actions, axis=1).astype(np.float64), -1.0, 1.0)  # (S, T, A)
    body = envs.family
    rollout = Rollout(body.model, body.FRAME_SKIP, starts, controls, lengths, envs._state.copy())
    return np.stack(actions), rollout


def replay(envs: BatchedVecEnv, actions: np.ndarray, lengths: np.ndarray, horizon: int) -> int:
    """Play recorded actions; the number of environment steps, those of frozen slots not counted."""
    envs.reset(seed=0)
    for action in actions[:horizon]:
        envs.step(action)
    return int(np.minimum(lengths, horizon).sum())


def engine_and_batched(batched: BatchedVecEnv, policy: Policy, stack: ExitStack) -> list[Contestant]:
    """The limit, and the batched environment at the same work."""
    actions, rollout = record(batched, policy)
    engine = stack.enter_context(closing(BareEngine(rollout)))
    again = partial(replay, batched, actions, rollout.lengths)
    return [
        Contestant(LIMIT, engine.episode),
        Contestant(f"batched, {batched.num_envs} slots, no policy", again),
    ]


def sample(sampler: BatchSampler, horizon: int) -> int:
    """What training samples after adaptation: one parameter set per task, all threads for PyTorch."""
    policy = NormalMLPPolicy(sampler.obs_dim, sampler.envs.single_action_space.shape[0])
    params = {name: tensor.expand(TASKS, *tensor.shape) for name, tensor in policy.params().items()}
    sampler.horizon = horizon
    torch.set_num_threads(available_cpus())
    episodes = sampler.sample(policy, params)
    torch.set_num_threads(1)
    return int(episodes.mask.sum())


def gymnasiums_own() -> gymnasium.Env:
    with silent_engine():  # its model calls for a warning, in a log file
        return gymnasium.make("HalfCheetah-v5", max_episode_steps=HORIZON, disable_env_checker=True)


def usual_ways(family: Callable[[], gymnasium.Env]) -> dict[str, VectorEnv]:
    workers = f"subproc, {FEW_SLOTS} slots, 2 workers"
    return {
        workers: make_vec_env(family, FEW_SLOTS, "subproc", num_workers=2),
        f"serial, {FEW_SLOTS} slots": make_vec_env(family, FEW_SLOTS, "serial"),
        "AsyncVectorEnv, 20 envs": AsyncVectorEnv([family] * 20),
        "AsyncVectorEnv, 20 of Gymnasium's own": AsyncVectorEnv([gymnasiums_own] * 20),
    }


def cheetah() -> None:
    family = partial(HalfCheetahDirEnv, HORIZON)
    policy = Policy(family())
    with ExitStack() as stack:
        # First, since AsyncVectorEnv forks: the engine has not started any threads yet.
        usual = {name: stack.enter_context(closing(envs)) for name, envs in usual_ways(family).items()}
        sampler = stack.enter_context(BatchSampler(family, TASKS, EPISODES))
        batched = stack.enter_context(make_vec_env(family, TASKS * EPISODES, "batched"))
        field_of = [
            *engine_and_batched(batched, policy, stack),
            Contestant(f"batched, {TASKS * EPISODES} slots", partial(play, batched, policy)),
            Contestant(f"BatchSampler, {TASKS} x {EPISODES} slots", partial(sample, sampler)),
            *(Contestant(name, partial(play, envs, policy)) for name, envs in usual.items()),
        ]
        race(field_of, HORIZON, TURNS, seconds=0.0)
    headings = ("× subproc", "× serial", "× Async", "× Gymnasium's")
    rivals = {"of the limit": LIMIT} | dict(zip(headings, usual, strict=True))
    report(f"HalfCheetah (horizon {HORIZON}): environment steps per second", field_of, rivals)


def ant() -> None:
    with make_vec_env(partial(AntDirEnv, HORIZON), 100, "batched") as batched, ExitStack() as stack:
        field_of = engine_and_batched(batched, Policy(batched.family), stack)
        race(field_of, HORIZON, TURNS, seconds=0.0)
    title = f"Ant (horizon {HORIZON}): environment steps per second, until they fall"
    report(title, field_of, {"of the limit": LIMIT})


def main() -> None:
    torch.set_num_threads(1)  # as in bench_envs
    torch.manual_seed(0)
    cheetah()
    ant()


if __name__ == "__main__":
    main()
