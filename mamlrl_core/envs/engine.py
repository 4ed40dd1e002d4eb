"""The physics engine: MuJoCo, loaded in one place for all bodies, kept quiet, every model compiled once.

Needs the extra ``mujoco``.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from weakref import WeakSet

import gymnasium
from gymnasium.error import DependencyNotInstalled

try:
    import mujoco.rollout
except ImportError as error:
    told = "the locomotion families need MuJoCo: pip install 'mamlrl-core[mujoco]'"
    raise DependencyNotInstalled(told) from error
except Exception as error:  # it also loads the OpenGL that MUJOCO_GL names, although no picture is wanted yet
    wanted = os.environ.get("MUJOCO_GL")
    raise DependencyNotInstalled(f"MuJoCo does not start with MUJOCO_GL={wanted}: {error}") from error

ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
LOCK, FOUND = Lock(), []  # of ``silent_engine``: the settings that those inside have found
STARTED: WeakSet[mujoco.rollout.Rollout] = WeakSet()  # engines, as long as somebody has them


@contextmanager
def silent_engine() -> Iterator[None]:
    """Keep the engine from writing its warnings to a file in the working directory: we report them.

    The setting is the whole process's: the last of several threads to leave restores what the first found.
    """
    with LOCK:
        FOUND.append(mujoco.MjLogConfig.get())
        silent = mujoco.MjLogConfig.get()
        silent.logto_file = silent.logto_console = False
        mujoco.MjLogConfig.set(silent)
    try:
        yield
    finally:
        with LOCK:
            mujoco.MjLogConfig.set(FOUND.pop())


@cache
def load_model(name: str) -> mujoco.MjModel:
    """The compiled model of a body. It is never written to, so one serves all environments of a process."""
    with silent_engine():
        return mujoco.MjModel.from_xml_path(str(ASSETS / name))


def start_engine(threads: int) -> mujoco.rollout.Rollout:
    """An engine with so many threads of its own. With none, it runs in the caller's."""
    engine = mujoco.rollout.Rollout(nthread=threads)
    STARTED.add(engine)
    return engine


def is_alive(engine: mujoco.rollout.Rollout | None) -> bool:
    """Whether there is an engine that can simulate. In a forked process none of those from before can."""
    return engine is not None and engine.rollout_ is not None


def leave_engines() -> None:
    """Give up all engines, in a process that was just forked: it has them, but none of their threads.

    Whoever closed one, or destroyed it when the process ends, would wait for these threads for ever. So none
    is destroyed: a reference that nobody gives back holds the memory until the process ends.
    """
    for engine in STARTED:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine.rollout_))
        engine.close()  # lets go of what is now held for good


if hasattr(os, "register_at_fork"):  # elsewhere no process is forked
    os.register_at_fork(after_in_child=leave_engines)
