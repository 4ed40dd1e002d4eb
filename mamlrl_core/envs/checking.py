"""Can it be trained on? ``check_task_env`` tries out every promise of a task family, and tells the broken."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import partial

import gymnasium

from .base import DynamicsEnv
from .dynamics_promises import DYNAMICS
from .promises import FIRST, PLAY, TASKS, USE
from .subproc_vec_env import WorkerError
from .trial import Broken
from .vec_env import EnvFactory

# Where a round finds something, the next ones would only find the same fault again, in other words.
ROUNDS = (*((promise,) for promise in FIRST), PLAY, TASKS + DYNAMICS + USE)
BACKENDS = ("batched", "serial", "subproc")


class TaskEnvError(ValueError):
    """An environment breaks promises of a task family.

    Attributes:
        broken: what was found and what to do, by the name of the promise.
    """

    def __init__(self, name: str, broken: dict[str, str]):
        self.broken = broken
        count = "a promise" if len(broken) == 1 else f"{len(broken)} promises"
        layout = {"initial_indent": "  ", "subsequent_indent": "    ", "break_on_hyphens": False}
        found = [textwrap.fill(f"{promise}: {what}", 80, **layout) for promise, what in broken.items()]
        super().__init__("\n".join([f"{name} breaks {count} of a task family.", *found]))


def check_task_env(env: str | EnvFactory, backends: Sequence[str] = BACKENDS) -> list[str]:
    """Find out whether an environment can be trained on, and tell everything that is wrong if it cannot.

    Args:
        env: the id of a registered family; or a class, or a function, that builds one environment.
        backends: which ways to run many environments are tried. The "batched" one, and the other promises
            of dynamics, are for a ``DynamicsEnv`` only.

    Returns:
        The names of the promises, all of them kept. They are functions in ``promises.py`` and
        ``dynamics_promises.py``, whose docstrings say what is promised.

    Raises:
        TaskEnvError: naming every promise that is broken, with what was found and what to do. Where the
            environment itself raised, its first exception is the ``__cause__``.

    >>> len(check_task_env("mamlrl/Navigation2D-v0", backends=["serial", "batched"]))
    21
    """
    if unknown := set(backends) - set(BACKENDS):
        raise ValueError(f"backends are some of {BACKENDS}, got {sorted(unknown)}")
    make, name = env, getattr(env, "__name__", str(env))
    if isinstance(env, str):
        make = partial(gymnasium.make, gymnasium.registry.get(env, env), disable_env_checker=True)

    kept, broken, cause = [], {}, None
    for promises in ROUNDS:
        for promise in promises:
            called = promise.__name__
            if called in BACKENDS and called not in backends:
                continue
            if promise in DYNAMICS and not isinstance(make().unwrapped, DynamicsEnv):
                continue
            try:
                promise(make)
                kept.append(called)
            except Broken as found:
                broken[called] = str(found)
            except (Exception, SystemExit) as error:
                if isinstance(error, WorkerError):  # the worker's own exception travels inside it
                    error = error.__cause__ or error
                first_line = f"{type(error).__name__}: {error}".partition("\n")[0]
                broken[called] = f"{first_line} (promised: {promise.__doc__})"
                cause = cause or error
        if broken:
            raise TaskEnvError(name, broken) from cause
    return kept
