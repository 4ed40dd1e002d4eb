"""A body to control: a cheetah or an ant in a physics engine, told to run somewhere by its rewards alone.

The high-dimensional experiments of the MAML paper (Finn et al. 2017, section 5.3), on the models that
Gymnasium ships for MuJoCo. Like every ``DynamicsEnv``, these are functions on arrays; the array's rows are
simulated by the engine's own threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from .base import DynamicsEnv, Task, check_task
from .engine import is_alive, load_model, mujoco, silent_engine, start_engine
from .processes import available_cpus

TIME, X, Y = 0, 1, 2  # columns of a state


class LocomotionEnv(DynamicsEnv):
    """What all bodies share: the simulation, where it starts, and what an action costs.

    A state is a row of the engine's full physics state: time, positions ``qpos``, velocities ``qvel``. The
    first position of either body is how far its torso has come along x, in metres. One step of the
    environment is five of the engine, 0.05 seconds. An episode starts as Gymnasium's do: at rest at the
    origin, plus noise, uniform in ±0.1 on the positions and normal with deviation 0.1 on the velocities.

    Actions are torques, clipped to [-1, 1] and then charged; the model's gears scale them. Velocities are
    those of the torso: distance covered over time passed.

    Gymnasium charges actions as asked for, and its constraint solver starts every step from its last
    solution; here it starts afresh, so that a state determines what follows it. The published experiments
    took steps of 0.01 (cheetah) and 0.02 seconds (ant): their 200 steps are 2 and 4 seconds, ours are 10.
    """

    MODEL: str  # file name
    HIDDEN: int  # how many columns of the state, from the left, the agent does not see
    CONTROL_COST: float  # weight of the squared action
    BONUS = 0.0  # paid for every step
    FRAME_SKIP = 5
    START_NOISE = 0.1

    def __init__(self, horizon: int = 200):
        self.model = load_model(self.MODEL)
        self.dt = self.FRAME_SKIP * self.model.opt.timestep  # seconds per step
        self._engine: mujoco.rollout.Rollout | None = None
        self.action_space = spaces.Box(-1.0, 1.0, (self.model.nu,), np.float32)
        observed = 1 + self.model.nq + self.model.nv - self.HIDDEN
        self.observation_space = spaces.Box(-np.inf, np.inf, (observed,), np.float32)
        super().__init__(horizon)

    def draw_start(self, rng: np.random.Generator) -> np.ndarray:
        positions = rng.uniform(-self.START_NOISE, self.START_NOISE, self.model.nq)
        velocities = self.START_NOISE * rng.standard_normal(self.model.nv)
        return np.concatenate([positions, velocities])

    def initial_state(self, task: Task, start: np.ndarray) -> np.ndarray:
        at_rest = np.concatenate([np.zeros(1), self.model.qpos0, np.zeros(self.model.nv)])
        time = np.zeros((*start.shape[:-1], 1))
        return at_rest + np.concatenate([time, start], axis=-1)  # (..., 1 + nq + nv)

    def observe(self, state: np.ndarray, task: Task) -> np.ndarray:
        return state[..., self.HIDDEN :]

    def transition(self, state: np.ndarray, action: np.ndarray, noise: np.ndarray, task: Task):
        action = np.clip(action, -1.0, 1.0)  # (..., A)
        moved = self.simulate(state, action)
        lost = self.broken(moved)
        velocity = (moved[..., X : Y + 1] - state[..., X : Y + 1]) / self.dt  # (..., 2)
        cost = self.CONTROL_COST * (action * action).sum(-1)
        reward = self.task_reward(moved, velocity, task) + self.BONUS - cost
        return moved, np.where(lost, 0.0, reward), lost | self.fallen(moved)

    def simulate(self, state: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The state one step later, as the engine computes it for every row, (..., 1 + nq + nv).

        An engine whose numbers overflow resets the body and carries on as if nothing had happened, with its
        clock at zero. Such a row keeps the state it had, and the time NaN.
        """
        rows = state.reshape(-1, state.shape[-1])
        if not is_alive(self._engine):
            # Starting threads pays off only for a batch; without any, the engine runs in this one.
            threads = available_cpus() if len(rows) > 1 else 0
            self._engine = start_engine(threads)
            self._scratch = [mujoco.MjData(self.model) for _ in range(max(1, threads))]
        actions = action.reshape(len(rows), 1, -1)
        with silent_engine():
            moved, _ = self._engine.rollout(self.model, self._scratch, rows, actions, nstep=self.FRAME_SKIP)
        moved = moved[:, -1]
        on_time = np.abs(moved[:, TIME] - rows[:, TIME] - self.dt) < 1e-6
        sound = on_time & np.isfinite(moved).all(-1)
        moved[~sound] = rows[~sound]
        moved[~sound, TIME] = np.nan
        return moved.reshape(state.shape)

    def broken(self, state: np.ndarray) -> np.ndarray:
        return np.isnan(state[..., TIME])

    def task_reward(self, state: np.ndarray, velocity: np.ndarray, task: Task) -> np.ndarray:
        """What the task pays for having moved to ``state`` with ``velocity`` (..., 2), along x and y."""
        raise NotImplementedError

    def fallen(self, state: np.ndarray) -> np.ndarray | bool:
        """Where the body cannot go on (...)."""
        return False

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def __getstate__(self) -> dict[str, Any]:
        """All that a copy or a pickle takes along: not the engine, whose threads are this object's own."""
        return {**self.__dict__, "_engine": None, "_scratch": None}


class DirectionTask:
    """The task "run that way": ``task["direction"]`` is +1, along x, or -1, against it; each as likely."""

    task_space = spaces.Dict({"direction": spaces.Box(-1.0, 1.0, (), np.float64)})

    def sample_tasks(self, num_tasks: int, rng: np.random.Generator) -> list[Task]:
        return [{"direction": np.float64(way)} for way in rng.choice([-1.0, 1.0], num_tasks)]

    def reset_task(self, task: Task) -> None:
        if abs(check_task(task, self.task_space)["direction"]) != 1.0:
            raise ValueError(f"task['direction'] must be +1 or -1, got {task['direction']!r}")
        super().reset_task(task)

    def task_reward(self, state: np.ndarray, velocity: np.ndarray, task: Task) -> np.ndarray:
        return task["direction"] * velocity[..., 0]


class HalfCheetahEnv(LocomotionEnv):
    """A two-legged cheetah that lives in a vertical plane; it never dies.

    ===========  =====  ===============================================================
    observation  (17,)  height, pitch, 6 joint angles; then the 9 velocities. Not x.
    action       (6,)   torques of thigh, shin and foot, back then front, in [-1, 1]
    reward              the task's, minus 0.05 · |action|²
    end                 after ``horizon`` steps
    ===========  =====  ===============================================================

    Gymnasium's HalfCheetah-v5 charges 0.1 · |action|². The published experiments charged 0.05, as here, and
    showed the agent the centre of mass too (20 numbers).
    """

    MODEL = "half_cheetah.xml"
    HIDDEN = 2  # time, x
    CONTROL_COST = 0.05


class HalfCheetahDirEnv(DirectionTask, HalfCheetahEnv):
    """A cheetah that is rewarded by its velocity in a direction, +x or -x, that it has to find out.

    The task's reward is ``direction · velocity``. Everything else is as in ``HalfCheetahEnv``.
    """


class HalfCheetahVelEnv(HalfCheetahEnv):
    """A cheetah that should run at a velocity, uniform in [0, 2] metres a second, that it has to find out.

    The task's reward is ``-|velocity - target|``. Everything else is as in ``HalfCheetahEnv``.
    """

    task_space = spaces.Dict({"velocity": spaces.Box(-np.inf, np.inf, (), np.float64)})

    def sample_tasks(self, num_tasks: int, rng: np.random.Generator) -> list[Task]:
        return [{"velocity": target} for target in rng.uniform(0.0, 2.0, num_tasks)]

    def task_reward(self, state: np.ndarray, velocity: np.ndarray, task: Task) -> np.ndarray:
        return -np.abs(velocity[..., 0] - task["velocity"])


class AntEnv(LocomotionEnv):
    """A four-legged ant; it dies when its torso comes too near the ground or too far from it.

    ===========  =====  =======================================================================
    observation  (27,)  height, orientation (a quaternion), 8 joint angles; then 14 velocities
    action       (8,)   torques of hip and ankle of every leg, in [-1, 1]
    reward              the task's, plus 0.05 for every step, minus 0.005 · |action|²
    end                 torso below 0.2 or above 1.0 metres; or after ``horizon`` steps
    ===========  =====  =======================================================================

    The weights are those of the published experiments. Gymnasium's Ant-v5 pays 1.0 for being alive and
    charges 0.5 · |action|². Both also charge a little for contact forces and let the agent see them (in
    Gymnasium, 105 numbers in all). Contact forces are no part of the engine's state, so here are none.
    """

    MODEL = "ant.xml"
    HIDDEN = 3  # time, x, y
    CONTROL_COST = 0.005
    BONUS = 0.05
    HEIGHT = 3  # column of the state
    LOWEST, HIGHEST = 0.2, 1.0

    def fallen(self, state: np.ndarray) -> np.ndarray:
        height = state[..., self.HEIGHT]
        return (height < self.LOWEST) | (height > self.HIGHEST)


class AntDirEnv(DirectionTask, AntEnv):
    """An ant that is rewarded by its velocity in a direction, +x or -x, that it has to find out.

    The task's reward is ``direction · velocity along x``. Everything else is as in ``AntEnv``.
    """


class AntVelEnv(AntEnv):
    """An ant that should run along x at a velocity, uniform in [0, 3], that it has to find out.

    The task's reward is ``-|velocity along x - target|``. Since that is never positive, dying early would be
    the best one could do: as in the published experiments, a step pays 1 more than in ``AntEnv``.
    """

    task_space = spaces.Dict({"velocity": spaces.Box(-np.inf, np.inf, (), np.float64)})
    BONUS = AntEnv.BONUS + 1.0

    def sample_tasks(self, num_tasks: int, rng: np.random.Generator) -> list[Task]:
        return [{"velocity": target} for target in rng.uniform(0.0, 3.0, num_tasks)]

    def task_reward(self, state: np.ndarray, velocity: np.ndarray, task: Task) -> np.ndarray:
        return -np.abs(velocity[..., 0] - task["velocity"])


class AntGoalEnv(AntEnv):
    """An ant that should walk to a goal, uniform in [-3, 3]² metres, that it has to find out.

    The task's reward is ``-(|x - goal x| + |y - goal y|)``, and a step pays 4 more than in ``AntEnv``, for
    the same reason as in ``AntVelEnv``. The agent sees where it is: x and y come first (29 numbers).
    """

    task_space = spaces.Dict({"goal": spaces.Box(-np.inf, np.inf, (2,), np.float64)})
    BONUS = AntEnv.BONUS + 4.0
    HIDDEN = 1  # time

    def sample_tasks(self, num_tasks: int, rng: np.random.Generator) -> list[Task]:
        return [{"goal": goal} for goal in rng.uniform(-3.0, 3.0, (num_tasks, 2))]

    def task_reward(self, state: np.ndarray, velocity: np.ndarray, task: Task) -> np.ndarray:
        offset = np.abs(state[..., X : Y + 1] - task["goal"])  # (..., 2)
        return -(offset[..., 0] + offset[..., 1])
