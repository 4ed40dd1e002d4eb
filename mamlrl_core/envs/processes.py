"""The life of worker processes: how many, how they start undisturbed, and how they end for certain."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

PATIENCE = 5.0  # seconds that a worker has to end by itself, once asked to


def available_cpus() -> int:
    """The CPUs that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def main_module_hidden() -> Iterator[None]:
    """Start processes that do not import the main script a second time.

    "spawn" and "forkserver" do so by default, to find what was pickled by reference to it. Here everything
    from the main script travels by value, and the import would do harm: it loads PyTorch into every worker,
    and a script without an ``if __name__ == "__main__"`` would try to start workers in every worker.
    """
    main = sys.modules["__main__"].__dict__
    hidden = {name: main.pop(name) for name in ("__file__", "__spec__") if name in main}
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(hidden)


@contextmanager
def interrupt_postponed() -> Iterator[None]:
    """Let Ctrl-C wait while processes start, here and in them.

    Otherwise it could strike when a process has started but is not yet known here, or in a process that has
    not yet come to ignore it.
    """
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield  # another system; or another thread, where no Ctrl-C arrives
        return
    struck: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: struck.append(number))
    resource_tracker.ensure_running()  # a helper of "spawn", whose own start would lift the mask
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which the processes inherit
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler or signal.SIG_DFL)
        if struck:
            signal.raise_signal(signal.SIGINT)


def end_workers(pipes: list[Connection], processes: list[BaseProcess]) -> None:
    """Ask every worker to end and wait; then end those that have not, first politely, then for certain.

    A Ctrl-C during the wait cuts it short: the workers end at once, and for certain.
    """
    for pipe in pipes:
        with suppress(OSError):
            pipe.send(("close", None))
        pipe.close()
    try:
        for insist, patience in ((None, PATIENCE), (BaseProcess.terminate, 1.0)):
            deadline = time.monotonic() + patience
            alive = [process for process in processes if process.is_alive()]
            for process in alive:
                if insist:
                    insist(process)
            for process in alive:
                process.join(max(0.0, deadline - time.monotonic()))
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
                process.join(1.0)
            if not process.is_alive():
                process.close()  # gives back the file through which its end was watched
