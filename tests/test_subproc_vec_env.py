"""What can go wrong with worker processes: each time it ends soon, with a clear word, and leaves nothing."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import pytest
from envs_for_tests import ClosingEnv, FaultyEnv, RandomWalkEnv
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError

from mamlrl_core.envs import SubprocVecEnv, WorkerError, make_vec_env
from mamlrl_core.envs.navigation import Navigation2DEnv
from mamlrl_core.envs.processes import available_cpus

ROOT = Path(__file__).parents[1]
CONTEXTS = ["fork", "forkserver", "spawn"]
SOON = 15.0  # seconds; what should take a few, on a busy machine


def gone_soon(pids):
    """Whether all these processes have ended (a zombie has) within a few seconds."""
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        alive = [pid for pid in pids if psutil.pid_exists(pid)]
        alive = [pid for pid in alive if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]
        if not alive:
            return True
        time.sleep(0.02)
    return False


def workers_alive():
    """Descendants of this process, apart from multiprocessing's own two helpers, which end with it."""
    helpers = "multiprocessing.forkserver", "multiprocessing.resource_tracker"
    me = psutil.Process()
    alive = []
    for process in me.children(recursive=True):
        try:
            is_helper = process.ppid() == me.pid and any(h in " ".join(process.cmdline()) for h in helpers)
            if not is_helper and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
        except psutil.NoSuchProcess:
            pass
    return alive


@pytest.fixture(autouse=True)
def no_worker_is_left(monkeypatch):
    monkeypatch.setattr("mamlrl_core.envs.processes.PATIENCE", 2.0)
    yield
    assert gone_soon([process.pid for process in workers_alive()])


def vec_env(*args, workers=2, context="fork", timeout=SOON, slots=4, **kwargs):
    return SubprocVecEnv(partial(FaultyEnv, *args, **kwargs), slots, workers, context, timeout)


def tasks(*drifts):
    return [{"drift": drift} for drift in drifts]


# What it is when nothing goes wrong.


def test_chunks_may_be_uneven():
    with SubprocVecEnv(RandomWalkEnv, 400, 3, "fork") as envs:
        sizes = [slots.stop - slots.start for slots in envs._slots]
        assert sizes == [133, 133, 134]
        assert envs.reset(seed=0)[0].shape == (400, 2, 2)
        assert envs.step(np.zeros((400, 3)))[1].shape == (400,)


def test_the_default_is_a_worker_per_cpu():
    with SubprocVecEnv(RandomWalkEnv, 50) as envs:
        assert len(envs._processes) == min(available_cpus(), 50) == min(len(os.sched_getaffinity(0)), 50)
    with SubprocVecEnv(RandomWalkEnv, 1) as envs:
        assert len(envs._processes) == 1


def test_wrong_arguments_are_named():
    for workers in (0, 5, 1.5):
        with pytest.raises(ValueError, match=rf"4 slots, got {workers}"):
            SubprocVecEnv(RandomWalkEnv, 4, workers)
    with pytest.raises(ValueError, match="-1"):
        SubprocVecEnv(RandomWalkEnv, 4, 2, timeout=-1)
    with pytest.raises(ValueError, match="thread"):
        SubprocVecEnv(RandomWalkEnv, 4, 2, context="thread")


def test_the_asynchronous_calls_keep_their_order():
    action = np.zeros((4, 3))
    with vec_env() as envs:
        envs.reset(seed=0)
        with pytest.raises(NoAsyncCallError, match="step_async"):
            envs.step_wait()
        envs.step_async(action)
        for call in (lambda: envs.step_async(action), envs.reset, lambda: envs.reset_task(tasks(0.0))):
            with pytest.raises(AlreadyPendingCallError, match="step_wait"):
                call()
        together = [envs.step_wait()]
        envs.reset(seed=0)
        together.append(envs.step(action))
        assert (together[0][0] == together[1][0]).all()
        envs.step_async(action)
    for call in (envs.step_wait, lambda: envs.step_async(action)):  # closed in the middle of a step
        with pytest.raises(ClosedEnvironmentError):
            call()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused_and_leave_the_original_as_it_was(copied):
    action = np.zeros((4, 3))
    with vec_env() as envs:
        envs.reset(seed=0)
        expected = envs.step(action)[0]
        envs.reset(seed=0)
        with pytest.raises(TypeError, match=r"SubprocVecEnv .* cannot be copied or pickled: make"):
            copied(envs)
        gc.collect()
        assert (envs.step(action)[0] == expected).all()


@pytest.mark.parametrize("context", CONTEXTS)
def test_nothing_stays_open(context):
    vec_env(context=context).close()  # multiprocessing opens some files once and for all
    before = psutil.Process().num_fds()
    for _ in range(3):
        envs = vec_env(context=context)
        envs.reset(seed=0)
        pids = [process.pid for process in envs._processes]
        assert len(pids) == 2 and all(psutil.pid_exists(pid) for pid in pids)
        envs.close()
        assert not any(psutil.pid_exists(pid) for pid in pids)
    assert psutil.Process().num_fds() == before


def shared_memory(pid):
    """The files whose memory a process can write to and shares with others, as the kernel lists them."""
    maps = [line.split(maxsplit=5) for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {line[-1] for line in maps if line[1].startswith("rw") and line[1].endswith("s")}


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_shared_memory_has_no_name_that_could_outlive_the_processes(context):
    before = shared_memory(os.getpid())  # such as a graphics driver's, if a film was made in this process
    with vec_env(context=context) as envs:
        for pid in [os.getpid()] + [process.pid for process in envs._processes]:
            nameless = {name for name in shared_memory(pid) if name.endswith("(deleted)")}
            assert nameless and shared_memory(pid) <= nameless | before


def test_an_object_that_nobody_holds_is_closed():
    envs = vec_env()
    pids = [process.pid for process in envs._processes]
    del envs
    assert gone_soon(pids)


def test_workers_asked_to_end_close_their_environments(tmp_path):
    """Although a forked worker inherits the pipes of an older vector environment, and a fork inherits all."""
    older = SubprocVecEnv(partial(ClosingEnv, tmp_path), 4, 2, "fork")
    younger = SubprocVecEnv(partial(ClosingEnv, tmp_path), 4, 2, "fork")
    pids = {str(process.pid) for process in older._processes}
    child = os.fork()
    if child == 0:
        older.close()  # not the child's to close
        os._exit(0)
    os.waitpid(child, 0)
    older.reset(seed=0)
    older.close()
    assert {path.name for path in tmp_path.iterdir()} == pids
    younger.reset(seed=0)
    younger.close()
    assert len(list(tmp_path.iterdir())) == 4


def test_infos_arrive_from_the_right_slots():
    with SubprocVecEnv(RandomWalkEnv, 5, 2, "fork") as envs:
        observations, infos = envs.reset(seed=0)
        assert (infos["start"] == observations[:, 0, 0]).all() and infos["_start"].all()


# When the environment fails.


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("method", ["__init__", "reset", "reset_task", "step"])
def test_an_exception_comes_with_worker_and_traceback(method, context):
    victim = None if method == "__init__" else 0.5  # the task of slots 2 and 3, which worker 1 hosts
    with pytest.raises(WorkerError) as caught:
        envs = vec_env(method, "raise", victim, context=context)
        envs.reset_task(tasks(0.1, 0.5))
        envs.reset(seed=0)
        envs.step(np.zeros((4, 3)))
    message = str(caught.value)
    if method != "__init__":
        assert "env worker 1 of 2 (slots 2 to 3) raised" in message
        with pytest.raises(ClosedEnvironmentError):
            envs.reset()
        envs.close()
    assert "envs_for_tests.py" in message and f"in {method}" in message and "KeyError" in message
    assert "closed itself" in message
    assert isinstance(caught.value.__cause__, KeyError) and caught.value.__cause__.args == ("out of luck",)


def test_an_exception_that_cannot_travel_still_tells():
    with pytest.raises(WorkerError, match="Unspeakable: 1 and 2") as caught:
        vec_env("__init__", "raise unspeakable")
    assert caught.value.__cause__ is None


def test_an_exception_in_an_asynchronous_step():
    envs = vec_env("step", "raise")
    envs.reset(seed=0)
    envs.step_async(np.zeros((4, 3)))
    with pytest.raises(WorkerError, match="out of luck"):
        envs.step_wait()
    envs.close()
    envs = vec_env("step", "raise")
    envs.reset(seed=0)
    envs.step_async(np.zeros((4, 3)))
    envs.close()  # without having asked


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_worker_that_is_killed_is_reported_at_once(context):
    for action in ("step", "reset", "reset_task"):
        envs = vec_env(context=context, timeout=100.0)
        envs.reset(seed=0)
        os.kill(envs._processes[1].pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match=r"worker 1 of 2 .*SIGKILL"):
            if action == "step":
                envs.step(np.zeros((4, 3)))
            elif action == "reset":
                envs.reset()
            else:
                envs.reset_task(tasks(0.0))
        assert envs.closed


@pytest.mark.parametrize(("fault", "message"), [("kill", "SIGKILL"), ("exit", "code 3")])
@pytest.mark.parametrize("method", ["__init__", "reset", "step"])
def test_a_worker_that_ends_itself_is_reported(method, fault, message):
    with pytest.raises(WorkerError, match=message):
        envs = vec_env(method, fault, timeout=100.0)
        envs.reset(seed=0)
        envs.step(np.zeros((4, 3)))


@pytest.mark.parametrize("fault", ["hang", "hang for good"])
@pytest.mark.parametrize("method", ["__init__", "reset", "step", "reset_task"])
def test_a_worker_that_hangs_is_reported_and_ended(method, fault):
    victim = None if method == "__init__" else 0.5
    timeout = 1.0
    with pytest.raises(WorkerError, match=r"no answer to '\w+' in 1 s"):
        envs = vec_env(method, fault, victim, timeout=timeout, context="fork")
        envs.reset_task(tasks(0.1, 0.5))
        envs.reset(seed=0)
        envs.step(np.zeros((4, 3)))


@pytest.mark.parametrize("fault", ["hang", "hang for good"])
def test_close_ends_a_worker_that_hangs(fault, monkeypatch):
    for method in ("step", "close"):
        envs = vec_env(method, fault)
        envs.reset(seed=0)
        envs.step_async(np.zeros((4, 3)))
        pids = [process.pid for process in envs._processes]
        envs.close()
        assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.parametrize("context", CONTEXTS)
def test_workers_that_simulate_bodies_are_reported_too(context):
    """Killed, and stopped in the middle of whatever they do: the engine makes no difference."""
    factory = partial(gymnasium.make, "mamlrl/HalfCheetahDir-v0")
    for blow, timeout, message in (
        (signal.SIGKILL, 100.0, "worker 1 of 2 .*SIGKILL"),
        (signal.SIGSTOP, 1.0, "no answer to 'step' in 1 s"),
    ):
        envs = SubprocVecEnv(factory, 4, 2, context)
        envs.timeout = timeout  # not that of the start
        envs.reset(seed=0)
        envs.step(np.zeros((4, 6)))
        pids = pids_of(envs)
        os.kill(pids[1], blow)
        with pytest.raises(WorkerError, match=message):
            envs.step(np.zeros((4, 6)))
        assert envs.closed and gone_soon(pids)


def test_an_exception_beside_the_engine_comes_with_its_traceback():
    class BrokenCheetah(gymnasium.Wrapper):
        def step(self, action):
            self.env.step(action)
            raise KeyError("out of luck")

    with pytest.raises(WorkerError, match="out of luck") as caught:
        envs = SubprocVecEnv(lambda: BrokenCheetah(gymnasium.make("mamlrl/HalfCheetahDir-v0")), 4, 2, "fork")
        envs.reset(seed=0)
        envs.step(np.zeros((4, 6)))
    assert isinstance(caught.value.__cause__, KeyError) and envs.closed


def test_a_signal_handler_of_the_parent_is_not_the_workers():
    previous = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with vec_env() as envs:
            os.kill(envs._processes[0].pid, signal.SIGTERM)
            with pytest.raises(WorkerError, match="SIGTERM"):
                envs.reset()
    finally:
        signal.signal(signal.SIGTERM, previous)


# When the parent fails: scripts in processes of their own.

SCRIPT = """
import os, sys, time
import sqlite3  # stands for a library that no worker needs
import numpy as np
from gymnasium import spaces
from mamlrl_core.envs import TaskEnv, SubprocVecEnv, processes

processes.PATIENCE = 0.5  # no test needs to wait for more

class ScriptEnv(TaskEnv):
    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)
    task_space = spaces.Dict({"pause": spaces.Box(0.0, 1e9, (), np.float64)})

    def __init__(self):
        super().__init__(horizon=1000)

    def sample_tasks(self, num_tasks, rng):
        return [{"pause": 0.0}] * num_tasks

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        info = {"torch": "torch" in sys.modules, "main": "sqlite3" in sys.modules}
        return np.zeros(1, np.float32), info

    def step(self, action):
        end = time.monotonic() + float(self.task["pause"])
        while time.monotonic() < end:
            pass
        return np.ones(1, np.float32), 1.0, False, False, {}

def start(context):
    envs = SubprocVecEnv(ScriptEnv, 4, 2, context)
    print(*(process.pid for process in envs._processes), flush=True)
    return envs
"""


class Script:
    """A Python process that runs SCRIPT and then ``body``, in a process group of its own."""

    def __init__(self, tmp_path, body, by_stdin=False):
        (tmp_path / "script.py").write_text(SCRIPT + textwrap.dedent(body))
        self.errors = open(tmp_path / "stderr", "w+")  # noqa: SIM115
        with open(tmp_path / "script.py") as text:
            self.process = subprocess.Popen(
                [sys.executable, "-" if by_stdin else "script.py"],
                cwd=tmp_path,
                env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                stdin=text,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                text=True,
                start_new_session=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def line(self):
        return self.process.stdout.readline().rstrip()

    def pids(self):
        """The process numbers of the workers, once they are ready."""
        return [int(pid) for pid in self.line().split()]

    def finish(self):
        """The rest of what it printed, and its errors."""
        self.process.wait(timeout=SOON)
        self.errors.seek(0)
        return self.process.stdout.read(), self.errors.read()


@pytest.mark.parametrize("by_stdin", [False, True])  # as in a notebook, where the main module has no file
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_class_of_the_main_script_travels_and_the_script_does_not(tmp_path, context, by_stdin):
    body = f"""
        with start("{context}") as envs:  # and this without 'if __name__ == "__main__"'
            _, infos = envs.reset(seed=0)
            envs.reset_task([{{"pause": 0.0}}])
            print(infos["torch"].any(), infos["main"].any(), envs.step(np.zeros(4, int))[1].sum())
        print(__name__, __spec__, __file__[-8:])
    """
    with Script(tmp_path, body, by_stdin) as script:
        pids = script.pids()
        out, err = script.finish()
    name = "<stdin>" if by_stdin else "cript.py"
    assert out.splitlines() == [f"False {context == 'fork'} 4.0", f"__main__ None {name}"]
    assert err == "" and script.process.returncode == 0 and gone_soon(pids)


@pytest.mark.parametrize("where", ["between steps", "in a hanging step"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_control_c(tmp_path, context, where):
    body = f"""
        envs = start("{context}")
        envs.reset_task([{{"pause": {0.0 if where == "between steps" else 1e6}}}])
        envs.reset(seed=0)
        print("stepping", flush=True)
        while True:
            envs.step(np.zeros(4, int))
    """
    with Script(tmp_path, body) as script:
        pids = script.pids()
        assert script.line() == "stepping"
        time.sleep(0.2)
        os.killpg(script.process.pid, signal.SIGINT)
        _, err = script.finish()
    assert err.count("Traceback") == 1 and err.endswith("KeyboardInterrupt\n")  # the parent's, no worker's
    assert script.process.returncode == -signal.SIGINT and gone_soon(pids)


@pytest.mark.parametrize("delay", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("context", CONTEXTS)
def test_control_c_while_workers_start(tmp_path, context, delay):
    body = f"""
        import threading
        threading.Timer({delay}, os.killpg, (0, 2)).start()  # Ctrl-C, from a thread
        while True:
            start("{context}").close()
    """
    with Script(tmp_path, body) as script:
        rest, err = script.finish()
    assert err.count("Traceback") == 1 and err.endswith("KeyboardInterrupt\n")
    assert script.process.returncode == -signal.SIGINT
    assert gone_soon([int(pid) for pid in rest.split()])


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "raise ValueError('parent')"])
def test_a_parent_that_forgets_to_close(tmp_path, end):
    body = f"""
        envs = start("forkserver")
        envs.reset_task([{{"pause": 1e6}}])
        envs.reset(seed=0)
        envs.step_async(np.zeros(4, int))
        {end}
    """
    with Script(tmp_path, body) as script:
        pids = script.pids()
        _, err = script.finish()
    assert gone_soon(pids)
    assert err.count("Traceback") == end.count("raise")


@pytest.mark.parametrize("where", ["idle", "in a hanging step"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_parent_that_is_killed(tmp_path, context, where):
    """Also beside a process that the parent forked, which keeps every pipe of the parent open."""
    body = f"""
        envs = start("{context}")
        if os.fork() == 0:
            time.sleep(1000)
        envs.reset_task([{{"pause": 1e6}}])
        envs.reset(seed=0)
        if "{where}" != "idle":
            envs.step_async(np.zeros(4, int))
        print("ready", flush=True)
        time.sleep(1000)
    """
    with Script(tmp_path, body) as script:
        pids = script.pids()
        assert script.line() == "ready"
        assert len(pids) == 2 and all(psutil.pid_exists(pid) for pid in pids)
        script.process.kill()
        assert gone_soon(pids)


def test_a_parent_that_is_killed_while_bodies_are_simulated(tmp_path):
    """In its own threads and in its workers at once."""
    body = """
        from mamlrl_core.envs import make_vec_env
        family = "mamlrl/AntDir-v0"
        here = make_vec_env(family, 4)
        there = make_vec_env(family, 4, "subproc", num_workers=2, context="fork")
        print(*(process.pid for process in there._processes), flush=True)
        while True:
            for envs in (here, there):
                envs.reset(seed=0)
                for _ in range(10):
                    envs.step(np.zeros((4, 8)))
            print("playing", flush=True)
    """
    with Script(tmp_path, body) as script:
        pids = script.pids()
        assert script.line() == "playing"
        script.process.kill()
        assert gone_soon(pids)
        assert not (tmp_path / "MUJOCO_LOG.TXT").exists()


def test_vector_environments_by_name_work_in_workers_that_know_no_such_name():
    gymnasium.register("TestOnly/Walk-v0", entry_point=RandomWalkEnv)
    try:
        with make_vec_env("TestOnly/Walk-v0", 2, "subproc", num_workers=1, context="spawn") as envs:
            assert envs.reset(seed=0)[0].shape == (2, 2, 2)
    finally:
        del gymnasium.registry["TestOnly/Walk-v0"]


def test_wrappers_travel_too():
    def factory():
        return gymnasium.wrappers.TransformReward(Navigation2DEnv(), lambda reward: reward - 100)

    with SubprocVecEnv(factory, 2, 1, "spawn") as envs:
        envs.reset_task([{"goal": [0.0, 1.0]}])
        envs.reset(seed=0)
        assert envs.step(np.zeros((2, 2)))[1].tolist() == [-101.0, -101.0]


class UncloseableEnv(RandomWalkEnv):
    def close(self):
        raise RuntimeError("this family cannot be closed")


def pids_of(envs):
    return [process.pid for process in envs._processes]


def test_a_family_whose_close_raises_leaves_no_worker():
    envs = SubprocVecEnv(UncloseableEnv, 2, 2, "fork")
    workers = pids_of(envs)
    with pytest.raises(RuntimeError, match="cannot be closed"):
        envs.close()
    assert not any(psutil.pid_exists(pid) for pid in workers)


def test_an_interrupt_while_close_waits_ends_the_workers_at_once(monkeypatch):
    envs = SubprocVecEnv(RandomWalkEnv, 2, 2, "fork")
    workers, join, interrupts = pids_of(envs), BaseProcess.join, [KeyboardInterrupt()]

    def interrupted_join(self, timeout=None):
        if interrupts:
            raise interrupts.pop()
        return join(self, timeout)

    monkeypatch.setattr(BaseProcess, "join", interrupted_join)
    with pytest.raises(KeyboardInterrupt):
        envs.close()
    assert not any(psutil.pid_exists(pid) for pid in workers)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_timeout_is_a_number_of_seconds(timeout):
    with pytest.raises(ValueError, match="timeout"):
        SubprocVecEnv(RandomWalkEnv, 2, 1, timeout=timeout)


class CollectingEnv(RandomWalkEnv):
    """Its first step collects all garbage, also what its process has not made itself."""

    def step(self, action):
        gc.collect()
        return super().step(action)


def test_a_forked_worker_leaves_its_parents_garbage_alone():
    """A dropped simulation, whose threads the fork did not copy, would be waited for by its destructor."""
    gc.collect()
    gc.disable()
    try:
        envs = make_vec_env("mamlrl/HalfCheetahDir-v0", 4)
        envs.reset(seed=0)
        envs.step(np.zeros((4, 6)))
        envs.itself = envs  # a cycle: only the collector will find it
        del envs
        with SubprocVecEnv(CollectingEnv, 2, 1, "fork", timeout=SOON) as walkers:
            walkers.reset(seed=0)
            walkers.step(np.zeros(walkers.action_space.shape))
    finally:
        gc.enable()
