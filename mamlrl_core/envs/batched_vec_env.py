"""All slots in one array: the dynamics of a family called once per step, for every slot together.

No processes, no loop over environments: NumPy's elementwise loops do the work. It needs a family that is
written as a ``DynamicsEnv``; the episodes equal those of the single environment to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker

from .base import DynamicsEnv, Task, stack_tasks
from .vec_env import EnvFactory, TaskVecEnv


class BatchedVecEnv(TaskVecEnv):
    """S slots whose states are the rows of one array.

    Args:
        env_factory: builds one environment of the family, which must be a ``DynamicsEnv``.
        num_envs: the number of slots, S.
    """

    def __init__(self, env_factory: EnvFactory, num_envs: int):
        env = env_factory()
        super().__init__(env, num_envs)
        if not isinstance(self.family, DynamicsEnv):
            raise TypeError(
                f"the batched backend needs dynamics written on arrays (a DynamicsEnv), and "
                f"{type(self.family).__name__} is not one: choose the backend 'serial' or 'subproc'"
            )
        while isinstance(env, gymnasium.Wrapper):
            if not isinstance(env, PassiveEnvChecker | OrderEnforcing):  # the two that gymnasium.make puts on
                raise TypeError(f"the batched backend would step past the wrapper {env}: choose another one")
            env = env.env
        self._rngs: list[np.random.Generator | None] = [None] * self.num_envs
        self._task = stack_tasks([self.family.task] * self.num_envs)

    def reset_task(self, tasks: Sequence[Task]) -> None:
        self._task = stack_tasks(self._tasks_per_slot(tasks))

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict | None = None):
        self._check_reset(options)
        self._noise = self._draw_noise(self._slot_seeds(seed))  # (T, S, ...)
        self._state = self.family.initial_state(self._task)  # (S, ...)
        self._time = 0
        self._terminated = np.zeros(self.num_envs, dtype=bool)
        self._truncated = np.zeros(self.num_envs, dtype=bool)
        self._running = True
        return self.family.observe(self._state, self._task).astype(np.float32), {}

    def _draw_noise(self, seeds: Sequence[int | None]) -> np.ndarray:
        if type(self.family).draw_noise is DynamicsEnv.draw_noise:  # a deterministic family opens no streams
            return np.zeros((self.family.horizon, self.num_envs, 0))
        for slot, seed in enumerate(seeds):
            if seed is not None or self._rngs[slot] is None:
                self._rngs[slot] = seeding.np_random(seed)[0]  # the same generator as in Env.reset
        return np.stack([self.family.draw_noise(rng) for rng in self._rngs], axis=1)

    def step(self, actions: np.ndarray):
        actions = self._check_step(actions)
        frozen = self._terminated | self._truncated
        if frozen.all():  # there is no noise left for a step beyond the horizon, and nobody to take it
            return self._answer(np.zeros(self.num_envs), frozen)
        noise = self._noise[self._time]  # (S, ...)
        state, reward, terminated = self.family.transition(self._state, actions, noise, self._task)
        self._time += 1
        running = ~frozen
        self._state = np.where(running.reshape(-1, *[1] * (state.ndim - 1)), state, self._state)
        self._terminated |= running & terminated
        self._truncated |= running & (self._time >= self.family.horizon)
        return self._answer(np.where(running, reward, 0.0), frozen)

    def _answer(self, rewards: np.ndarray, frozen: np.ndarray):
        """What step returns; the slots that were already frozen before it show zeros."""
        observations = self.family.observe(self._state, self._task).astype(np.float32)  # (S, D)
        observations[frozen] = 0.0
        return observations, rewards, self._terminated.copy(), self._truncated.copy(), {}
