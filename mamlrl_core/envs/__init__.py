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
from .vec_env import EnvFactory, TaskVecEnv

__all__ = ["BACKENDS", "BatchedVecEnv", "DynamicsEnv", "EnvFactory", "Task", "TaskEnv", "TaskVecEnv", "make_vec_env"]

# Gymnasium id -> (module, class, constructor arguments)
FAMILIES = {
    "mamlrl/Navigation2D-v0": ("navigation", "Navigation2DEnv", {}),
    "mamlrl/Navigation2DSparse-v0": ("navigation", "Navigation2DSparseEnv", {}),
}

BACKENDS = ("batched", "serial", "subproc")


def make_vec_env(env: str | EnvFactory, num_envs: int, backend: str = "batched", **kwargs: Any) -> TaskVecEnv:
    """A vector environment of ``num_envs`` slots.

    Args:
        env: the id of a registered family, or a function that builds one environment.
        num_envs: the number of slots, S.
        backend: "batched" (NumPy over all slots), "serial" (a loop) or "subproc" (worker processes).
        kwargs: passed to the backend, for instance ``num_workers`` for "subproc".
    """
    factory = partial(gymnasium.make, env) if isinstance(env, str) else env
    if backend == "batched":
        return BatchedVecEnv(factory, num_envs, **kwargs)
    if backend == "serial":
        from .serial_vec_env import SerialVecEnv

        return SerialVecEnv(factory, num_envs, **kwargs)
    if backend == "subproc":
        from .subproc_vec_env import SubprocVecEnv

        return SubprocVecEnv(factory, num_envs, **kwargs)
    raise ValueError(f"backend must be one of {BACKENDS}, got {backend!r}")


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
