"""All slots one after another, in this process: the plain version, which the others must agree with.

It works for every ``TaskEnv``, also for one that writes ``reset`` and ``step`` itself. A worker process of
``SubprocVecEnv`` is a loop around one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import Task
from .vec_env import EnvFactory, TaskVecEnv


class SerialVecEnv(TaskVecEnv):
    """S environments and a loop.

    Args:
        env_factory: builds one environment of the family. It is called S + 1 times: the extra one draws and
            checks tasks, and is never stepped.
        num_envs: the number of slots, S.
    """

    def __init__(self, env_factory: EnvFactory, num_envs: int):
        super().__init__(env_factory(), num_envs)
        self.envs = [env_factory() for _ in range(self.num_envs)]
        self.slot_infos: dict[int, dict[str, Any]] = {}  # what the last call returned, where it is not empty

    def reset_task(self, tasks: Sequence[Task]) -> None:
        for env, task in zip(self.envs, self._tasks_per_slot(tasks), strict=True):
            env.unwrapped.reset_task(task)  # a Gymnasium wrapper does not pass the method on

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict | None = None):
        self._check_reset(options)
        observations, self.slot_infos = self._empty_observations(), {}
        for slot, slot_seed in enumerate(self._slot_seeds(seed)):
            observations[slot], info = self.envs[slot].reset(seed=slot_seed)
            if info:
                self.slot_infos[slot] = info
        self._terminated = np.zeros(self.num_envs, dtype=bool)
        self._truncated = np.zeros(self.num_envs, dtype=bool)
        self._running = True
        return observations, self._gather_infos(self.slot_infos)

    def step(self, actions: np.ndarray):
        actions = self._check_step(actions).astype(self.single_action_space.dtype)
        observations, self.slot_infos = self._empty_observations(), {}
        rewards = np.zeros(self.num_envs)
        for slot in np.flatnonzero(~(self._terminated | self._truncated)).tolist():  # the others are frozen
            observation, reward, terminated, truncated, info = self.envs[slot].step(actions[slot])
            observations[slot], rewards[slot] = observation, reward
            self._terminated[slot], self._truncated[slot] = terminated, truncated
            if info:
                self.slot_infos[slot] = info
        flags = self._terminated.copy(), self._truncated.copy()
        return observations, rewards, *flags, self._gather_infos(self.slot_infos)

    def close_extras(self, **kwargs: Any) -> None:
        super().close_extras()
        for env in self.envs:
            env.close()

    def _empty_observations(self) -> np.ndarray:
        return np.zeros(self.observation_space.shape, dtype=self.observation_space.dtype)  # (S, D)
