"""Task families and the three ways to run many of them at once.

Importing this package registers every family with Gymnasium.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import gymnasium

from .base import DynamicsEnv, Task, TaskEnv
from .batched_vec_env import BatchedVecEnv
from .checking import TaskEnvError, check_task_env
from .serial_vec_env import SerialVecEnv
from .subproc_vec_env import SubprocVecEnv, WorkerError
from .vec_env import EnvFactory, TaskVecEnv

__all__ = [
    "BACKENDS",
    "FAMILIES",
    "BatchedVecEnv",
    "DynamicsEnv",
    "EnvFactory",
    "SerialVecEnv",
    "SubprocVecEnv",
    "Task",
    "TaskEnv",
    "TaskEnvError",
    "TaskVecEnv",
    "WorkerError",
    "check_task_env",
    "make_vec_env",
]

# Gymnasium id -> (module, class, constructor arguments)
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mamlrl/BernoulliBandit5-v0": ("bandit", "BernoulliBanditEnv", {"num_arms": 5}),
    "mamlrl/BernoulliBandit10-v0": ("bandit", "BernoulliBanditEnv", {"num_arms": 10}),
    "mamlrl/BernoulliBandit50-v0": ("bandit", "BernoulliBanditEnv", {"num_arms": 50}),
    "mamlrl/GaussianBandit5-v0": ("bandit", "GaussianBanditEnv", {"num_arms": 5}),
    "mamlrl/GaussianBandit10-v0": ("bandit", "GaussianBanditEnv", {"num_arms": 10}),
    "mamlrl/GaussianBandit50-v0": ("bandit", "GaussianBanditEnv", {"num_arms": 50}),
    "mamlrl/TabularMDP-v0": ("tabular_mdp", "TabularMDPEnv", {}),
    "mamlrl/Navigation2D-v0": ("navigation", "Navigation2DEnv", {}),
    "mamlrl/Navigation2DSparse-v0": ("navigation", "Navigation2DSparseEnv", {}),
    "mamlrl/HalfCheetahDir-v0": ("locomotion", "HalfCheetahDirEnv", {}),
    "mamlrl/HalfCheetahVel-v0": ("locomotion", "HalfCheetahVelEnv", {}),
    "mamlrl/AntDir-v0": ("locomotion", "AntDirEnv", {}),
    "mamlrl/AntVel-v0": ("locomotion", "AntVelEnv", {}),
    "mamlrl/AntGoal-v0": ("locomotion", "AntGoalEnv", {}),
}

BACKENDS: dict[str, type[TaskVecEnv]] = {
    "batched": BatchedVecEnv,
    "serial": SerialVecEnv,
    "subproc": SubprocVecEnv,
}


def make_vec_env(env: str | EnvFactory, num_envs: int, backend: str = "batched", **kwargs: Any) -> TaskVecEnv:
    """A vector environment of ``num_envs`` slots.

    Args:
        env: the Gymnasium id of a task family, or a function that builds one environment.
        num_envs: the number of slots, S.
        backend: "batched" (all slots in one array), "serial" (a loop) or "subproc" (worker processes).
        kwargs: passed to the backend, for instance ``num_workers`` for "subproc".

    >>> make_vec_env("mamlrl/Navigation2D-v0", 40).reset(seed=0)[0].shape
    (40, 2)
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {sorted(BACKENDS)}, got {backend!r}")
    if isinstance(env, str):
        # The registry's entry rather than its name, which a worker knows only if it registered it too; and
        # without the wrapper that checks every step, since the vector environment does its own checks.
        env = partial(gymnasium.make, gymnasium.registry.get(env, env), disable_env_checker=True)
    return BACKENDS[backend](env, num_envs, **kwargs)


def _batched(module: str, name: str, num_envs: int = 1, **kwargs: Any) -> BatchedVecEnv:
    """The vector entry point of every family, for ``gymnasium.make_vec``."""
    family = getattr(import_module(f".{module}", __name__), name)
    return BatchedVecEnv(partial(family, **kwargs), num_envs)


for _id, (_module, _name, _kwargs) in FAMILIES.items():
    gymnasium.register(
        _id,
        entry_point=f"{__name__}.{_module}:{_name}",
        vector_entry_point=partial(_batched, _module, _name),
        kwargs=_kwargs,
    )
