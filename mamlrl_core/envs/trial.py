"""Trying out a family: episodes played twice, and the first place where they differ.

The tools of ``promises.py``. Everything here is given a way to *make* environments rather than one, since
half of what can go wrong lies between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from .base import Task
from .vec_env import EnvFactory, TaskVecEnv

NUM_TASKS = 4


class Broken(Exception):
    """A promise is not kept. The message says what was found, and what to do about it."""


def require(kept: Any, found: str) -> None:
    if not kept:
        raise Broken(found)


class Turn(NamedTuple):
    """What one call returned: of ``step``, or of ``reset``, which has no reward and ends nothing."""

    observation: Any
    reward: Any = 0.0
    terminated: Any = False
    truncated: Any = False


def sample(make: EnvFactory, num_tasks: int = NUM_TASKS, seed: int = 1) -> list[Task]:
    """Tasks of the family, from a generator with this seed."""
    return make().unwrapped.sample_tasks(num_tasks, np.random.default_rng(seed))


def draw_actions(space: spaces.Box | spaces.Discrete, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Random actions within the space, ``shape`` of them: ``shape`` plus one axis, A, unless discrete."""
    rng = np.random.default_rng(seed)
    if isinstance(space, spaces.Discrete):
        return rng.integers(space.n, size=shape)
    normal = rng.normal(size=(*shape, *space.shape))
    return np.clip(normal, space.low, space.high).astype(space.dtype)


def play(
    env: gymnasium.Env,
    task: Task,
    seed: int = 1,
    *,
    by_option: bool = False,
    before_turn: Callable[[int], None] = lambda time: None,
) -> list[Turn]:
    """One episode of random actions, up to one step beyond the horizon.

    Args:
        seed: of the episode and of the actions.
        by_option: give the task to ``reset`` rather than to ``reset_task``.
        before_turn: is called before every step with the number of the steps made.
    """
    if not by_option:
        env.unwrapped.reset_task(task)
    observation, _ = env.reset(seed=seed, options={"task": task} if by_option else None)
    turns = [Turn(np.copy(observation))]
    for time, action in enumerate(draw_actions(env.action_space, (env.unwrapped.horizon + 1,), seed)):
        before_turn(time)
        observation, reward, terminated, truncated, _ = env.step(action)
        turns.append(Turn(np.copy(observation), reward, terminated, truncated))
        if terminated or truncated:
            break
    return turns


def plays_like_singles(make: EnvFactory, build: Callable[[EnvFactory, int], TaskVecEnv]) -> None:
    """Every slot of a vector environment plays, twice, what a single environment plays."""
    tasks, slots = sample(make), 2 * NUM_TASKS
    with build(make, slots) as envs:
        horizon, space = envs.family.horizon, envs.single_action_space
        actions = np.stack([draw_actions(space, (horizon + 1,), seed) for seed in range(slots)], axis=1)
        envs.reset_task(tasks)
        for _ in range(2):
            observations, _ = envs.reset(seed=range(slots))
            turns = [Turn(observations, np.zeros(slots), *np.zeros((2, slots), dtype=bool))]
            turns += [Turn(*envs.step(action)[:4]) for action in actions[:horizon]]
            for slot in range(slots):
                single = play(make(), tasks[slot // 2], seed=slot)
                its_own = [Turn(*(part[slot] for part in turn)) for turn in turns[: len(single)]]
                found = differ(single, its_own)
                require(not found, f"slot {slot} of {slots} played another episode than one alone ({found})")


def differ(first: Any, second: Any) -> str:
    """The first place where two episodes, tasks or arrays differ, in words; "" if they agree to the bit."""
    for one, other in zip_longest(leaves(first), leaves(second)):
        if one is None or other is None:
            return f"only one has {(one or other)[0]}"
        (place, a), (elsewhere, b) = one, other
        if place != elsewhere:
            return f"one has {place}, the other {elsewhere}"
        if a.shape != b.shape:
            return f"{place}: shape {a.shape} against {b.shape}"
        for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True):
            if repr(x) != repr(y):  # NaN equals itself here, and 0.0 is not -0.0
                return f"{place}: {x!r} against {y!r}"
    return ""


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Every array in nested lists, dicts and turns, with the words that lead to it."""
    if isinstance(value, Turn):
        value = value._asdict()
    elif isinstance(value, list):
        value = {f"step {index}": one for index, one in enumerate(value)}
    if not isinstance(value, Mapping):
        yield place, np.asarray(value)
        return
    for name, one in value.items():
        yield from leaves(one, f"{place}, {name}" if place else str(name))
