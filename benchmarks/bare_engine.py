"""The limit of every MuJoCo environment: the engine alone, on all cores at once.

One worker process per core calls ``mujoco.mj_step`` on the states and controls of a recorded rollout, and
does nothing else: no observations, no rewards, no policy, and no waiting for the others between two steps.
An environment that steps the same bodies in the same way cannot be faster. (Python's loop around the calls
takes two hundredths of the time; by that much the engine is faster than it seems here.)

Processes rather than threads, which would wait for Python's lock between the calls.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from functools import partial

import mujoco
import numpy as np

from mamlrl_core.envs.processes import available_cpus, main_module_hidden

STATE = int(mujoco.mjtState.mjSTATE_FULLPHYSICS)
SLOTS_PER_JOB = 4  # small, so that no core waits long for the last job


@dataclass
class Rollout:
    """What S bodies did: where they started, what they were told, how long each one ran, where it ended."""

    model: mujoco.MjModel
    substeps: int  # of the engine, in one step of the environment
    starts: np.ndarray  # (S, X), states of the engine
    controls: np.ndarray  # (S, T, A)
    lengths: np.ndarray  # (S,), at most T
    ends: np.ndarray  # (S, X)


class BareEngine:
    """Worker processes that simulate a rollout again.

    They are given the rollout when they start, so that later only slot numbers have to be sent.
    """

    def __init__(self, rollout: Rollout):
        self.rollout = rollout
        slots = np.argsort(-rollout.lengths, kind="stable")  # the long ones first, to finish together
        self.jobs = [slots[first : first + SLOTS_PER_JOB] for first in range(0, len(slots), SLOTS_PER_JOB)]
        with main_module_hidden():
            context = multiprocessing.get_context("forkserver")
            self.pool = context.Pool(available_cpus(), initializer=_remember, initargs=(rollout,))

    def episode(self, horizon: int) -> int:
        """Every slot's episode, or its first ``horizon`` steps; the number of environment steps."""
        ends = self.pool.map(partial(_simulate, horizon), self.jobs, chunksize=1)
        whole = horizon >= self.rollout.lengths.max()
        if whole and not np.array_equal(np.concatenate(ends), self.rollout.ends[np.concatenate(self.jobs)]):
            raise RuntimeError("the bare engine ended elsewhere, so it has not done the same work")
        return int(np.minimum(self.rollout.lengths, horizon).sum())

    def close(self) -> None:
        self.pool.terminate()
        self.pool.join()


def _remember(rollout: Rollout) -> None:
    """What a worker process has: the rollout, and one body to simulate."""
    global ROLLOUT, BODY
    ROLLOUT, BODY = rollout, mujoco.MjData(rollout.model)


def _simulate(horizon: int, slots: np.ndarray) -> np.ndarray:
    """The states in which these slots end, (len(slots), X)."""
    model, substeps, ends = ROLLOUT.model, ROLLOUT.substeps, np.empty_like(ROLLOUT.ends[slots])
    control, warmstart = BODY.ctrl, BODY.qacc_warmstart
    for row, slot in enumerate(slots):
        mujoco.mj_setState(model, BODY, ROLLOUT.starts[slot], STATE)
        for action in ROLLOUT.controls[slot, : min(horizon, ROLLOUT.lengths[slot])]:
            control[:] = action
            warmstart[:] = 0.0  # the environment, too, lets the solver start every step afresh
            mujoco.mj_step(model, BODY, substeps)
        mujoco.mj_getState(model, BODY, ends[row], STATE)
    return ends
