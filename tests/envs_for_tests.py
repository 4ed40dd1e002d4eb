"""Environments that only the tests use: one that writes its own step, and one that fails on demand."""

import multiprocessing
import os
import signal
import sys
import time

import numpy as np
from gymnasium import spaces

from mamlrl_core.envs import TaskEnv


class RandomWalkEnv(TaskEnv):
    """Not a ``DynamicsEnv``: it draws noise at every step, ends at random, and returns infos now and then."""

    observation_space = spaces.Box(-np.inf, np.inf, (2, 2), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    task_space = spaces.Dict({"drift": spaces.Box(-1.0, 1.0, (), np.float64)})

    def __init__(self, horizon=9):
        super().__init__(horizon)

    def sample_tasks(self, num_tasks, rng):
        return [{"drift": drift} for drift in rng.uniform(-1.0, 1.0, num_tasks)]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.time, self.position = 0, self.np_random.normal(size=(2, 2)).astype(np.float32)
        return self.position, {"start": self.position[0, 0]}

    def step(self, action):
        self.time += 1
        noise = self.np_random.normal(size=(2, 2)) + self.task["drift"] + action.sum()
        self.position = (self.position + noise).astype(np.float32)
        terminated = bool(self.np_random.random() < 0.1)
        info = {"late": {"time": self.time}} if self.time % 3 == 0 else {}
        return self.position, float(noise.sum()), terminated, self.time >= self.horizon, info


class ClosingEnv(RandomWalkEnv):
    """Leaves a file named after the process when a worker closes it."""

    def __init__(self, folder):
        self.folder = folder
        super().__init__()

    def close(self):
        if multiprocessing.parent_process() is not None:
            (self.folder / str(os.getpid())).touch()


class Unspeakable(Exception):
    """An exception that does not survive pickling."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")
        self.handle = open(os.devnull)  # noqa: SIM115


class FaultyEnv(RandomWalkEnv):
    """Does ``fault`` when ``method`` is called in a worker process (in the parent nothing ever happens)."""

    def __init__(self, method="", fault="", drift_of_victim=None):
        self.method, self.fault, self.victim, self.armed = method, fault, drift_of_victim, False
        super().__init__()
        self.armed = multiprocessing.parent_process() is not None
        self.misbehave("__init__")

    def misbehave(self, method):
        if not self.armed or method != self.method:
            return
        if self.victim is not None and self.task["drift"] != self.victim:
            return
        if self.fault == "raise":
            raise KeyError("out of luck")
        if self.fault == "raise unspeakable":
            raise Unspeakable(1, 2)
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "exit":
            sys.exit(3)
        if self.fault == "hang for good":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while "hang" in self.fault:
            time.sleep(0.01)

    def reset_task(self, task):
        super().reset_task(task)
        self.misbehave("reset_task")

    def reset(self, *, seed=None, options=None):
        self.misbehave("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.misbehave("step")
        return super().step(action)

    def close(self):
        self.misbehave("close")
