"""What a task family is: one environment class, many tasks.

Meta-learning needs a *distribution* over environments. Here that is one Gymnasium environment with two extra
methods: ``sample_tasks`` draws tasks, ``reset_task`` moves the environment to one of them. A task is a plain
dict of numbers and arrays, so that it can be printed, stored and sent to another process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

Task = dict[str, Any]

BROKEN = "the simulation blew up: this episode ends here"


def check_task(task: Mapping[str, Any], task_space: spaces.Dict) -> Task:
    """A copy of ``task`` as float64 arrays, or a ``ValueError`` that names what is wrong with it."""
    if not isinstance(task, Mapping):
        raise ValueError(f"a task is a dict with the keys {sorted(task_space)}, got {task!r}")
    if set(task) != set(task_space):
        raise ValueError(f"a task of this family has the keys {sorted(task_space)}, got {list(task)}")
    checked = {}
    for key, space in task_space.items():
        try:
            value = np.array(task[key], dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"task[{key!r}] must hold numbers, got {task[key]!r}") from None
        if value.shape != space.shape:
            raise ValueError(f"task[{key!r}] must have shape {space.shape}, got {value.shape}: {task[key]!r}")
        if not np.isfinite(value).all():
            raise ValueError(f"task[{key!r}] must be finite, got {task[key]!r}")
        if (value < space.low).any() or (value > space.high).any():
            low, high = space.low.min(), space.high.max()
            raise ValueError(f"task[{key!r}] must lie in [{low}, {high}], got {task[key]!r}")
        checked[key] = value
    return checked


def check_action(action: Any, space: spaces.Box | spaces.Discrete, shape: tuple[int, ...]) -> np.ndarray:
    """``action``, of one slot or of many, as an array of the given shape that the dynamics can use.

    Continuous actions are rounded to the space's type, so that it does not matter with how many digits they
    arrive, and become float64; they may lie outside the space (a Gaussian has no bounds; the dynamics clip).
    Discrete ones become int64, and may not. The array is C-contiguous: how a sum over it is rounded depends
    on its layout.
    """
    action = np.asarray(action)
    if action.shape != shape:
        raise ValueError(f"the action must have shape {shape}, got {action.shape}: {action}")
    if isinstance(space, spaces.Discrete):
        if not np.issubdtype(action.dtype, np.integer):
            raise ValueError(f"a discrete action is an integer, got {action.dtype}: {action}")
        lowest, highest = space.start, space.start + space.n - 1
        wrong = (action < lowest) | (action > highest)
        if wrong.any():
            raise ValueError(f"a discrete action lies in {lowest}..{highest}, got {action[wrong]}")
        return action.astype(np.int64)
    action = action.astype(space.dtype).astype(np.float64, order="C")
    if not np.isfinite(action).all():
        raise ValueError(f"an action must be finite, got {action[~np.isfinite(action)]}")
    return action


class TaskEnv(gymnasium.Env):
    """A family of tasks, as a Gymnasium environment that can be moved from task to task.

    A subclass sets the two spaces of Gymnasium, ``task_space`` (a ``Dict`` of ``Box``: what a task holds) and
    the horizon, and writes ``sample_tasks``, ``reset`` and ``step``. It counts its own steps and reports
    ``truncated`` when the horizon is reached. Until told otherwise, it is at a task drawn with seed 0.
    """

    task_space: spaces.Dict

    def __init__(self, horizon: int):
        if int(horizon) != horizon or horizon < 1:
            raise ValueError(f"the horizon is a whole number of steps, at least 1, got {horizon!r}")
        self.horizon = int(horizon)
        self.reset_task(self.sample_tasks(1, np.random.default_rng(0))[0])

    def sample_tasks(self, num_tasks: int, rng: np.random.Generator) -> list[Task]:
        """Draw ``num_tasks`` tasks from the family, using no randomness but ``rng``."""
        raise NotImplementedError

    def reset_task(self, task: Task) -> None:
        """Move to ``task``. The episode does not restart: call ``reset`` for that.

        Raises:
            ValueError: for an unknown or missing key, a wrong shape, a non-finite or out-of-range value.
        """
        self.task = check_task(task, self.task_space)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """Seed the stream and take ``options={"task": ...}``, if given; subclasses start the episode."""
        super().reset(seed=seed)
        options = dict(options or {})
        if "task" in options:
            self.reset_task(options.pop("task"))
        if options:
            raise ValueError(f"the only reset option is 'task', got {sorted(options)}")


class DynamicsEnv(TaskEnv):
    """A family whose dynamics are functions on arrays with any number of leading axes.

    Called with no leading axis they are one environment, which is this class; called with a slot axis they
    are hundreds of environments at once, which is ``BatchedVecEnv``. Both call the same lines, and
    elementwise float64 arithmetic gives the same bits for one row as for many: so both play the same
    episodes. (A matrix product may not, since its summation order depends on its size: keep it out.)

    All randomness of an episode is drawn when it starts, from the episode's own stream: by ``draw_start``,
    then by ``draw_noise``.
    """

    def draw_start(self, rng: np.random.Generator) -> np.ndarray:
        """The randomness of where an episode starts, (...). A family that always starts alike needs none."""
        return np.zeros(0)

    def draw_noise(self, rng: np.random.Generator) -> np.ndarray:
        """The noise of an episode's steps, (horizon, ...). A deterministic world needs none."""
        return np.zeros((self.horizon, 0))

    def initial_state(self, task: Task, start: np.ndarray) -> np.ndarray:
        """The state that an episode starts in, shape (...) + the shape of one state."""
        raise NotImplementedError

    def observe(self, state: np.ndarray, task: Task) -> np.ndarray:
        """What the agent sees of ``state``, shape (..., D)."""
        raise NotImplementedError

    def transition(self, state: np.ndarray, action: np.ndarray, noise: np.ndarray, task: Task):
        """One step: the next state, the reward (...), and whether the episode has ended (...)."""
        raise NotImplementedError

    def broken(self, state: np.ndarray) -> np.ndarray | bool:
        """Where a simulator has given up, (...). ``transition`` ends such an episode; the info says why."""
        return False

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed, options=options)
        self._time = 0
        start = self.draw_start(self.np_random)
        self._noise = self.draw_noise(self.np_random)
        self._state = self.initial_state(self.task, start)
        self._done = False
        return self.observe(self._state, self.task).astype(np.float32), {}

    def step(self, action: Any):
        if getattr(self, "_done", True):
            raise ResetNeeded("the episode is over, or has not begun: call reset() before step()")
        action = check_action(action, self.action_space, self.action_space.shape)
        noise = self._noise[self._time]
        self._state, reward, terminated = self.transition(self._state, action, noise, self.task)
        self._time += 1
        truncated = self._time >= self.horizon
        self._done = bool(terminated or truncated)
        observation = self.observe(self._state, self.task).astype(np.float32)
        info = {"warning": BROKEN} if self.broken(self._state) else {}
        return observation, float(reward), bool(terminated), truncated, info


def stack_tasks(tasks: Sequence[Task]) -> Task:
    """N tasks as one dict whose arrays have a leading task axis."""
    return {key: np.stack([task[key] for task in tasks]) for key in tasks[0]}
