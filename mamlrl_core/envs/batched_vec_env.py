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

from .base import BROKEN, DynamicsEnv, Task, stack_tasks
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
        start, self._noise = self._draw(self._slot_seeds(seed))  # (S, ...), (T, S, ...)
        self._state = self.family.initial_state(self._task, start)  # (S, ...)
        self._time = 0
        self._terminated = np.zeros(self.num_envs, dtype=bool)
        self._truncated = np.zeros(self.num_envs, dtype=bool)
        self._running = True
        return self.family.observe(self._state, self._task).astype(np.float32), {}

    def _draw(self, seeds: Sequence[int | None]) -> tuple[np.ndarray, np.ndarray]:
        """The randomness of a new episode in every slot, each from the slot's own stream."""
        family = type(self.family)
        if (family.draw_start, family.draw_noise) == (DynamicsEnv.draw_start, DynamicsEnv.draw_noise):
            # A deterministic family opens no streams.
            return np.zeros((self.num_envs, 0)), np.zeros((self.family.horizon, self.num_envs, 0))
        for slot, seed in enumerate(seeds):
            if seed is not None or self._rngs[slot] is None:
                self._rngs[slot] = seeding.np_random(seed)[0]  # the same generator as in Env.reset
        drawn = [(self.family.draw_start(rng), self.family.draw_noise(rng)) for rng in self._rngs]
        starts, noises = zip(*drawn, strict=True)
        return np.stack(starts), np.stack(noises, axis=1)

    def step(self, actions: np.ndarray):
        actions = self._check_step(actions)
        running = ~(self._terminated | self._truncated)
        observations = np.zeros(self.observation_space.shape, dtype=np.float32)  # (S, D), zero if frozen
        rewards, infos = np.zeros(self.num_envs), {}
        if running.any():
            # A simulator's time is too dear for frozen slots. With none of them, a slice saves the copies.
            rows = slice(None) if running.all() else np.flatnonzero(running)
            task = {key: value[rows] for key, value in self._task.items()}
            noise = self._noise[self._time, rows]
            state, reward, terminated = self.family.transition(self._state[rows], actions[rows], noise, task)
            self._time += 1
            self._state = self._state.astype(state.dtype)  # a copy: it may be a view of the task
            self._state[rows] = state
            observations[rows] = self.family.observe(state, task)
            rewards[rows] = reward
            self._terminated[rows] = terminated
            self._truncated[rows] = self._time >= self.family.horizon
            if np.any(broken := self.family.broken(state)):
                slots = np.flatnonzero(running)[broken].tolist()
                infos = self._gather_infos({slot: {"warning": BROKEN} for slot in slots})
        return observations, rewards, self._terminated.copy(), self._truncated.copy(), infos
