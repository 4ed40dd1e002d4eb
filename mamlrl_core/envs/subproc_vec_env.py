"""Slots spread over worker processes, for environments that are slow or written without arrays.

Every worker hosts a ``SerialVecEnv`` over some of the slots. What a step moves, actions one way and
observations, rewards and flags the other, lies in memory that all processes share; the pipes carry commands,
seeds, tasks, infos and errors. So one round trip serves all the slots of a worker at once.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise, repeat
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any

import cloudpickle
import numpy as np
from gymnasium.error import AlreadyPendingCallError, NoAsyncCallError

from .base import Task
from .env_worker import EnvWorker, SharedArray
from .processes import available_cpus, end_workers, interrupt_postponed, main_module_hidden
from .vec_env import EnvFactory, TaskVecEnv


class WorkerError(RuntimeError):
    """A worker's environment raised, or the worker died, or it did not answer in time.

    The message holds the worker's number and, where an environment raised, the worker's own traceback;
    ``__cause__`` is then the exception itself, if it survived the journey.
    """


class SubprocVecEnv(TaskVecEnv):
    """S slots in W worker processes. Use it in a ``with`` block, or ``close`` it.

    Args:
        env_factory: builds one environment. Workers build their own with it; one more is built here, which
            draws and checks tasks and defines the spaces, and is never stepped.
        num_envs: the number of slots, S.
        num_workers: the number of processes, W; by default one for every CPU that this process may use.
        context: the start method. "forkserver" and "spawn" start from a clean interpreter. "fork" copies this
            process, which is quicker to start, but unsafe when it has other threads (as PyTorch does): a lock
            that one of them holds at that moment stays locked in the copy for ever.
        timeout: seconds within which all workers must have answered a command, or built their environments.

    Raises:
        WorkerError: from any method, when a worker fails; the vector environment has then closed itself.
    """

    def __init__(
        self,
        env_factory: EnvFactory,
        num_envs: int,
        num_workers: int | None = None,
        context: str = "forkserver",
        timeout: float = 60.0,
    ):
        super().__init__(env_factory(), num_envs)
        num_workers = min(available_cpus(), num_envs) if num_workers is None else num_workers
        if int(num_workers) != num_workers or not 1 <= num_workers <= num_envs:
            raise ValueError(f"num_workers must lie between 1 and the {num_envs} slots, got {num_workers!r}")
        if not 0 < timeout <= 1e6:
            raise ValueError(f"the timeout is a positive number of seconds, at most 1e6, got {timeout!r}")
        self.timeout = timeout
        self._stepping = False  # is there a step_async that waits for its step_wait?

        method = multiprocessing.get_context(context)
        shared = {
            "observations": SharedArray(method, self.observation_space.shape, self.observation_space.dtype),
            "actions": SharedArray(method, self.action_space.shape, self.action_space.dtype),
            "rewards": SharedArray(method, (self.num_envs,), np.float64),
            "terminated": SharedArray(method, (self.num_envs,), np.bool_),
            "truncated": SharedArray(method, (self.num_envs,), np.bool_),
        }
        self._views = {name: array.view() for name, array in shared.items()}
        bounds = [self.num_envs * worker // num_workers for worker in range(num_workers + 1)]
        self._slots = [slice(first, end) for first, end in pairwise(bounds)]

        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []
        # Runs once: by close(), or when collected, or at the interpreter's exit; not in a fork.
        self._end = Finalize(self, end_workers, (self._pipes, self._processes), exitpriority=10)
        factory = cloudpickle.dumps(env_factory)
        with self._closing_on_error():
            with main_module_hidden(), interrupt_postponed():
                for index, slots in enumerate(self._slots):
                    pipe, far_end = method.Pipe()
                    self._pipes.append(pipe)
                    inherited = self._pipes if context == "fork" else []
                    worker = EnvWorker(factory, slots, far_end, shared, inherited)
                    process = method.Process(target=worker.run, name=f"env worker {index}", daemon=True)
                    self._processes.append(process)
                    process.start()
                    far_end.close()  # or the pipe would stay open when the worker dies
            self._answers("start")

    def reset_task(self, tasks: Sequence[Task]) -> None:
        self._check_idle("reset_task")
        slot_tasks = self._tasks_per_slot(tasks)
        with self._closing_on_error():
            self._send("reset_task", (slot_tasks[slots] for slots in self._slots))
            self._answers("reset_task")

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict | None = None):
        self._check_idle("reset")
        self._check_reset(options)
        seeds = self._slot_seeds(seed)
        with self._closing_on_error():
            self._send("reset", (seeds[slots] for slots in self._slots))
            infos = self._answers("reset")
        self._running = True
        return self._views["observations"].copy(), self._gather_infos(infos)

    def step(self, actions: np.ndarray):
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: np.ndarray) -> None:
        """Start a step in all workers, and return at once."""
        self._check_idle("step_async")
        self._views["actions"][:] = self._check_step(actions)
        with self._closing_on_error():
            self._send("step", repeat(None))
        self._stepping = True

    def step_wait(self):
        """The results of the step that ``step_async`` started."""
        self._check_open()
        if not self._stepping:
            raise NoAsyncCallError("step_wait() needs a step_async() before it", "step")
        with self._closing_on_error():
            infos = self._answers("step")
        self._stepping = False
        names = "observations", "rewards", "terminated", "truncated"
        return *(self._views[name].copy() for name in names), self._gather_infos(infos)

    def close_extras(self, **kwargs: Any) -> None:
        self._end()  # first: the family's own close may raise
        super().close_extras()

    def __getstate__(self) -> dict[str, Any]:
        """Refuse copies and pickles: both objects would talk through the same pipes to the same workers."""
        advice = "make another one, which plays the same episodes if it is reset with the same seed"
        raise TypeError(f"a {type(self).__name__} is processes, and cannot be copied or pickled: {advice}")

    def _check_idle(self, name: str) -> None:
        self._check_open()
        if self._stepping:
            raise AlreadyPendingCallError(f"{name}() was called while a step awaits its step_wait()", "step")

    def _send(self, command: str, arguments: Iterable[Any]) -> None:
        for pipe, argument in zip(self._pipes, arguments, strict=False):
            with suppress(ConnectionError):  # the worker is dead, as _answers will tell
                pipe.send((command, argument))

    def _answers(self, command: str) -> dict[int, dict[str, Any]]:
        """Wait until every worker has answered; the infos of the slots that have any."""
        infos: dict[int, dict[str, Any]] = {}
        deadline = time.monotonic() + self.timeout
        waiting = set(range(len(self._processes)))
        while waiting:
            answers = {self._pipes[index]: index for index in waiting}
            deaths = {self._processes[index].sentinel: index for index in waiting}
            ready = wait([*answers, *deaths], max(0.0, deadline - time.monotonic()))
            if not ready:
                self._processes[min(waiting)].kill()
                raise self._error(min(waiting), f"was ended: no answer to {command!r} in {self.timeout:g} s.")
            for index in {(answers | deaths)[sign] for sign in ready}:
                for slot, info in self._receive(index).items():
                    infos[self._slots[index].start + slot] = info
                waiting.remove(index)
        return dict(sorted(infos.items()))

    def _receive(self, index: int) -> dict[int, dict[str, Any]]:
        try:
            kind, content = self._pipes[index].recv() if self._pipes[index].poll() else ("end", None)
        except (EOFError, ConnectionError):
            kind = "end"
        if kind == "done":
            return content
        if kind == "error":
            travelling, remote_traceback = content
            try:
                cause = cloudpickle.loads(travelling)
            except Exception:
                cause = None
            raise self._error(index, f"raised an exception:\n\n{remote_traceback}") from cause
        self._processes[index].join(1.0)
        code = self._processes[index].exitcode or 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        raise self._error(index, f"died: it {how}.")

    def _error(self, index: int, what: str) -> WorkerError:
        slots = self._slots[index]
        who = f"env worker {index} of {len(self._slots)} (slots {slots.start} to {slots.stop - 1})"
        return WorkerError(f"{who} {what}\nThis {type(self).__name__} has closed itself.")

    @contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        """After an error, Ctrl-C included, answers may be missing or left over: no step could be trusted."""
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the first error is the one to report
                self.close()
            raise
