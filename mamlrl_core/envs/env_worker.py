"""The far side of ``SubprocVecEnv``: what a worker process does, and the memory it shares with its parent."""

from __future__ import annotations

import ctypes
import gc
import math
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from typing import Any

import cloudpickle
import numpy as np

from .serial_vec_env import SerialVecEnv


class SharedArray:
    """An array that lives in memory shared with the worker processes it is handed to.

    The memory has no name in the file system: the kernel frees it with the last process that maps it, so
    nothing is left over however the processes end.
    """

    def __init__(self, context: BaseContext, shape: tuple[int, ...], dtype: Any):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._memory = context.RawArray(ctypes.c_byte, math.prod(shape) * self.dtype.itemsize)

    def view(self) -> np.ndarray:
        return np.frombuffer(self._memory, self.dtype).reshape(self.shape)


class EnvWorker:
    """What runs in one worker process. It is made in the parent, and ``run`` is the process's whole life."""

    def __init__(
        self,
        factory: bytes,  # by cloudpickle, so that a class defined in a notebook or script can travel
        slots: slice,
        pipe: Connection,
        shared: dict[str, SharedArray],
        inherited: Sequence[Connection],
    ):
        self.factory, self.slots, self.pipe = factory, slots, pipe
        self.shared, self.inherited = shared, inherited

    def run(self) -> None:
        gc.freeze()  # what came with the fork is not ours to destroy: it may wait for threads that did not
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process: let the parent decide
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a handler that came with the fork is not for us
        for end in self.inherited:  # a fork that kept them would keep its siblings' pipes open
            end.close()
        threading.Thread(target=self.outlive_nobody, daemon=True).start()
        try:
            self.obey()
        except Exception as error:
            try:
                travelling = cloudpickle.dumps(error)
            except Exception:
                travelling = None
            self.answer("error", (travelling, traceback.format_exc()))

    def obey(self) -> None:
        views = {name: array.view()[self.slots] for name, array in self.shared.items()}
        observations, actions, rewards = views["observations"], views["actions"], views["rewards"]
        terminated, truncated = views["terminated"], views["truncated"]

        env = SerialVecEnv(cloudpickle.loads(self.factory), self.slots.stop - self.slots.start)
        try:
            self.answer("done", {})
            while True:
                command, argument = self.next_command()
                infos: dict[int, dict[str, Any]] = {}
                if command == "step":
                    observations[:], rewards[:], terminated[:], truncated[:], _ = env.step(actions)
                    infos = env.slot_infos
                elif command == "reset":
                    observations[:], _ = env.reset(seed=argument)
                    infos = env.slot_infos
                elif command == "reset_task":
                    env.reset_task(argument)
                else:  # "close"
                    return
                self.answer("done", infos)
        finally:
            env.close()

    def next_command(self) -> tuple[str, Any]:
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionError):  # the parent closed its end, or is gone
            return "close", None

    def answer(self, kind: str, content: Any) -> None:
        with suppress(ConnectionError):  # nobody listens any more: the next command will be "close"
            self.pipe.send((kind, content))

    @staticmethod
    def outlive_nobody() -> None:
        """Once the parent is gone, end this process, whatever its environment is doing.

        Linux can tell of the very process that is meant. Elsewhere a pipe has to do, whose other end is held
        by the parent, but also by any process that it forked. Only a C function that keeps Python's lock
        for ever would keep this thread from ending the process.
        """
        parent = multiprocessing.parent_process()
        try:
            ended = os.pidfd_open(parent.pid)
        except (AttributeError, OSError):  # not on this system, or the parent is gone already
            ended = parent.sentinel
        wait([ended])
        os._exit(1)
