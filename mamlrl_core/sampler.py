"""The sampler: let N policies play B episodes each, and return what happened as tensors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Discrete
from torch import Tensor
from torch.func import vmap

from .envs import EnvFactory, Task, TaskVecEnv, make_vec_env
from .episodes import BatchEpisodes
from .policies import MLPPolicy, Params
from .seeding import Purpose, derive_seed, generator


class BatchSampler:
    """Plays N tasks in lock-step, B episodes of each, in N·B slots of a vector environment.

    Args:
        env: the id of a registered family, or a function that builds one environment.
        num_tasks: N.
        episodes_per_task: B.
        seed: the root of every random stream used here.
        observe_task: append the task's numbers to the observation. A policy that is told the task need not
            adapt: this is the oracle that meta-learning is compared with.
        backend: passed to ``make_vec_env``, as are further arguments.

    Attributes:
        broken: episodes so far that an environment complained about: of a simulation that blew up, say.
    """

    def __init__(
        self,
        env: str | EnvFactory,
        num_tasks: int,
        episodes_per_task: int,
        *,
        seed: int = 0,
        observe_task: bool = False,
        backend: str = "batched",
        **backend_kwargs: Any,
    ):
        if num_tasks < 1 or episodes_per_task < 1:
            counts = f"{num_tasks} tasks and {episodes_per_task} episodes per task"
            raise ValueError(f"need at least one of each, got {counts}")
        self.num_tasks = num_tasks
        self.episodes_per_task = episodes_per_task
        self.seed = seed
        self.observe_task = observe_task
        self.envs = make_vec_env(env, num_tasks * episodes_per_task, backend, **backend_kwargs)
        require_vectors(self.envs)
        self.horizon = self.envs.family.horizon
        self.broken = 0
        nothing = np.zeros((num_tasks, 0), dtype=np.float32)
        self.task_vectors = None if observe_task else nothing  # (N, ·), what is appended to observations

    @property
    def obs_dim(self) -> int:
        """D, the size of what the policy sees."""
        task_size = sum(int(np.prod(space.shape)) for space in self.envs.family.task_space.values())
        return self.envs.single_observation_space.shape[0] + self.observe_task * task_size

    def sample_tasks(self, iteration: int) -> list[Task]:
        """The N tasks of one iteration: always the same for the same seed."""
        return self.envs.sample_tasks(self.num_tasks, generator(self.seed, Purpose.TASKS, iteration))

    def reset_task(self, tasks: Sequence[Task]) -> None:
        """Give the N tasks their slots."""
        if len(tasks) != self.num_tasks:
            raise ValueError(f"this sampler plays {self.num_tasks} tasks at a time, got {len(tasks)}")
        self.envs.reset_task(tasks)
        if self.observe_task:
            keys = self.envs.family.task_space
            rows = [np.concatenate([np.ravel(task[key]) for key in keys]) for task in tasks]
            self.task_vectors = np.asarray(rows, dtype=np.float32)

    @torch.no_grad()
    def sample(
        self, policy: MLPPolicy, params: Params | None = None, *, iteration: int = 0, phase: int = 0
    ) -> BatchEpisodes:
        """One episode in every slot.

        Args:
            policy: what plays, at its own parameters unless ``params`` are given.
            params: a parameter set for every task, each tensor with a leading N.
            iteration, phase: name the random streams. The same pair plays the same episodes again, on any
                backend.

        Raises:
            ResetNeeded: if the policy is to be told tasks that ``reset_task`` has not set yet.
        """
        if self.task_vectors is None:
            raise ResetNeeded("call reset_task() before sample(): the policy is to be told its task")
        dtype = next(policy.parameters()).dtype
        N, B, T = self.num_tasks, self.episodes_per_task, self.horizon
        noise = torch.as_tensor(self._action_noise(policy, iteration, phase), dtype=dtype)  # (T, N, B, ...)
        act = policy if params is None else partial(vmap(policy.apply), params)  # task i by parameter set i

        seeds = self._seeds(Purpose.ENVIRONMENT, iteration, phase)
        observation, _ = self.envs.reset(seed=seeds)  # (S, D)
        done, complaints = np.zeros(N * B, dtype=bool), {}
        observations, actions, rewards, masks = [], [], [], []
        for t in range(T):
            seen = torch.as_tensor(self._with_task(observation), dtype=dtype)  # (N, B, D)
            action = act(seen).sample(noise[t])  # (N, B, A) or (N, B)
            observations.append(seen)
            actions.append(action)
            masks.append(~done)
            observation, reward, terminated, truncated, info = self.envs.step(action.flatten(0, 1).numpy())
            rewards.append(reward)
            complaints |= {slot: text for slot, text in enumerate(info.get("warning", ())) if text}
            done = terminated | truncated
            if done.all():
                break
        if complaints:
            first, count = next(iter(complaints.values())), len(complaints)
            warnings.warn(f"{first} (and so in {count} of {N * B} episodes)", stacklevel=2)
            self.broken += count
        return BatchEpisodes.create(
            torch.stack(observations, dim=1),  # (N, T, B, D)
            torch.stack(actions, dim=1),
            self._per_task(torch.as_tensor(np.stack(rewards), dtype=dtype)),
            self._per_task(torch.as_tensor(np.stack(masks))),
        )

    def close(self) -> None:
        self.envs.close()

    def __enter__(self) -> BatchSampler:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _seeds(self, purpose: Purpose, iteration: int, phase: int) -> list[int]:
        """One seed per slot, each under its own (purpose, iteration, phase, task, episode)."""
        tasks, episodes = range(self.num_tasks), range(self.episodes_per_task)
        return [derive_seed(self.seed, purpose, iteration, phase, i, b) for i in tasks for b in episodes]

    def _action_noise(self, policy: MLPPolicy, iteration: int, phase: int) -> np.ndarray:
        seeds = self._seeds(Purpose.ACTIONS, iteration, phase)
        noise = np.stack([policy.draw_noise(np.random.default_rng(s), self.horizon) for s in seeds], axis=1)
        return noise.reshape(self.horizon, self.num_tasks, self.episodes_per_task, *noise.shape[2:])

    def _with_task(self, observation: np.ndarray) -> np.ndarray:
        """(S, D) -> (N, B, D), with the task's numbers appended if the policy is to be told."""
        observation = observation.reshape(self.num_tasks, self.episodes_per_task, -1)
        task = np.repeat(self.task_vectors[:, None], self.episodes_per_task, axis=1)  # (N, B, ·)
        return np.concatenate([observation, task], axis=-1)

    def _per_task(self, x: Tensor) -> Tensor:
        """(T, S) -> (N, T, B)."""
        return x.view(len(x), self.num_tasks, self.episodes_per_task).transpose(0, 1).contiguous()


def require_vectors(envs: TaskVecEnv) -> None:
    """Close environments that no policy of this package fits, and say what is wrong with their spaces.

    Raises:
        TypeError: unless an observation is a vector, and an action a vector or one of 0..n-1.
    """
    seen, done = envs.single_observation_space, envs.single_action_space
    if not (isinstance(seen, Box) and len(seen.shape) == 1):
        envs.close()
        raise TypeError(f"a policy sees a vector (a Box of one axis), not {seen}")
    if not (len(done.shape) == 1 or (isinstance(done, Discrete) and done.start == 0)):
        envs.close()
        raise TypeError(f"a policy's action is a vector or one of 0..n-1, not {done}")
