"""The interface that the three vector environments share: slots, tasks, seeds.

A vector environment holds S = N·B *slots*. ``reset_task`` takes N tasks; slot i·B + b then plays episode b of
task i. Every slot plays one episode and stops: a finished slot is frozen, and answers with a zero
observation, a zero reward and its last flags until the next ``reset``. Nothing restarts by itself, so the
last observation of an episode is never lost.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ..seeding import derive_seed
from .base import Task, TaskEnv, check_action

EnvFactory = Callable[[], gymnasium.Env]


class TaskVecEnv(VectorEnv):
    """A ``gymnasium.vector.VectorEnv`` without autoreset, with ``sample_tasks`` and ``reset_task``.

    Args:
        family: one environment of the family. It draws tasks and defines the spaces; it is never stepped.
        num_envs: the number of slots, S.
    """

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(self, family: gymnasium.Env, num_envs: int):
        if int(num_envs) != num_envs or num_envs < 1:
            raise ValueError(f"num_envs is the number of slots, at least 1, got {num_envs!r}")
        if not isinstance(family.unwrapped, TaskEnv):
            raise TypeError(f"a task family is a TaskEnv, got {type(family.unwrapped).__name__}")
        if not isinstance(family.observation_space, spaces.Box | spaces.Discrete):
            raise TypeError(f"an observation is one array (Box or Discrete), got {family.observation_space}")
        if not isinstance(family.action_space, spaces.Box | spaces.Discrete):
            raise TypeError(f"an action is one array (Box or Discrete), got {family.action_space}")
        self.family: TaskEnv = family.unwrapped
        self.num_envs = int(num_envs)
        self.single_observation_space = family.observation_space
        self.single_action_space = family.action_space
        self.observation_space = batch_space(family.observation_space, self.num_envs)
        self.action_space = batch_space(family.action_space, self.num_envs)
        self._running = False  # has reset() been called?

    def sample_tasks(self, num_tasks: int, rng: np.random.Generator) -> list[Task]:
        """Draw ``num_tasks`` tasks of the family with ``rng``."""
        return self.family.sample_tasks(num_tasks, rng)

    def reset_task(self, tasks: Sequence[Task]) -> None:
        """Give the slots their tasks: B = S / N slots each. No episode restarts: call ``reset`` for that."""
        raise NotImplementedError

    def _tasks_per_slot(self, tasks: Sequence[Task]) -> list[Task]:
        """The task of every slot, checked by the family (with its own messages) before any slot moves."""
        self._check_open()
        if len(tasks) == 0 or self.num_envs % len(tasks) != 0:
            raise ValueError(f"the number of tasks must divide the {self.num_envs} slots, got {len(tasks)}")
        episodes_per_task = self.num_envs // len(tasks)
        slot_tasks = []
        for task in tasks:
            self.family.reset_task(task)
            slot_tasks += [self.family.task] * episodes_per_task
        return slot_tasks

    def _slot_seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        """One seed per slot. An int spawns independent streams; s and s + 1 share none of them."""
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            return [derive_seed(int(seed), slot) for slot in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"seed must be one integer or one per slot ({self.num_envs}), got {len(seed)}")
        seeds = [None if one is None else operator.index(one) for one in seed]
        if any(one is not None and one < 0 for one in seeds):
            raise ValueError(f"seeds are not negative, got {seeds}")
        return seeds

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(f"this {type(self).__name__} has been closed")

    def _check_reset(self, options: dict[str, Any] | None) -> None:
        self._check_open()
        if options:
            raise ValueError(f"reset takes no options (tasks are set by reset_task), got {sorted(options)}")

    def _check_step(self, actions: Any) -> np.ndarray:
        """The actions as one array (S, ...), all checked before any slot moves."""
        self._check_open()
        if not self._running:
            raise ResetNeeded("call reset() before step()")
        return check_action(actions, self.single_action_space, self.action_space.shape)

    def _gather_infos(self, slot_infos: dict[int, dict[str, Any]]) -> dict[str, Any]:
        """The infos of single slots in Gymnasium's vector format: one array and one mask per key."""
        infos: dict[str, Any] = {}
        for slot, info in slot_infos.items():
            infos = self._add_info(infos, info, slot)
        return infos

    def close_extras(self, **kwargs: Any) -> None:
        self.family.close()

    def __enter__(self) -> TaskVecEnv:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
