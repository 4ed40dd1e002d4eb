"""What a ``DynamicsEnv`` promises on top: its dynamics are functions, on any leading axes, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from .base import DynamicsEnv, Task, check_action, check_task, stack_tasks
from .batched_vec_env import BatchedVecEnv
from .trial import differ, draw_actions, play, plays_like_singles, require, sample
from .vec_env import EnvFactory

ROWS, LEAD = 12, (3, 4)  # the same rows, with one leading axis and with two


class Situation(NamedTuple):
    """The arguments of ``transition``, with any leading axes."""

    state: np.ndarray
    action: np.ndarray
    noise: np.ndarray
    task: Task

    def map(self, function: Any) -> Situation:
        """``function`` of every array."""
        task = {key: function(value) for key, value in self.task.items()}
        return Situation(function(self.state), function(self.action), function(self.noise), task)


def starts(make: EnvFactory) -> tuple[Task, np.ndarray, np.ndarray]:
    """Tasks, starts and noise of as many episodes as there are rows: (ROWS, ...), noise (T, ROWS, ...)."""
    family, rng = make().unwrapped, np.random.default_rng(1)
    tasks = stack_tasks([check_task(task, family.task_space) for task in sample(make, ROWS)])
    drawn = [(family.draw_start(rng), family.draw_noise(rng)) for _ in range(ROWS)]
    return tasks, np.stack([start for start, _ in drawn]), np.stack([noise for _, noise in drawn], axis=1)


def situations(make: EnvFactory) -> Iterator[Situation]:
    """Where the rows are in their first five steps."""
    family = make().unwrapped
    tasks, start, noise = starts(make)
    state = family.initial_state(tasks, start)
    for time, step_noise in enumerate(noise[:5]):
        drawn = draw_actions(family.action_space, (ROWS,), time)
        now = Situation(state, check_action(drawn, family.action_space, drawn.shape), step_noise, tasks)
        yield now
        state, *_ = family.transition(*now)


def answers(family: DynamicsEnv, now: Situation) -> dict[str, np.ndarray]:
    """What the dynamics say to a situation."""
    names = "observation", "state", "reward", "terminated"
    answer = (family.observe(now.state, now.task), *family.transition(*now))
    return dict(zip(names, answer, strict=True))


def chance_comes_first(make: EnvFactory) -> None:
    """``draw_start`` and ``draw_noise`` draw from ``rng``, shapes that never change, a row for every step."""
    family = make().unwrapped
    for draw in (family.draw_start, family.draw_noise):
        first, again, other = (draw(np.random.default_rng(seed)) for seed in (1, 1, 2))
        found = differ(first, again)
        require(not found, f"{draw.__name__} gave other numbers for the same rng ({found}); draw from rng")
        fixed = first.shape == other.shape
        require(fixed, f"{draw.__name__} drew shapes {first.shape} and {other.shape}; always draw as much")
    rows = len(first)
    require(rows == family.horizon, f"draw_noise has {rows} rows, for {family.horizon} steps; one for each")


def dynamics_are_functions(make: EnvFactory) -> None:
    """``initial_state``, ``observe`` and ``transition`` know their arguments only, and change nothing."""
    here, elsewhere = make().unwrapped, make().unwrapped
    play(elsewhere, sample(make, seed=2)[0])
    tasks, start, _ = starts(make)
    found = differ(here.initial_state(tasks, start), elsewhere.initial_state(tasks, start))
    require(not found, f"initial_state depends on the environment ({found}); use the argument task")
    for now in situations(make):
        given = deepcopy(now)
        first = answers(here, now)
        found = differ(given._asdict(), now._asdict())
        require(not found, f"it changed its arguments ({found}); compute new arrays: x = x + y, not x += y")
        found = differ(first, answers(elsewhere, now))
        require(not found, f"it depends on the environment ({found}); use the argument task, not self.task")


def any_leading_axes(make: EnvFactory) -> None:
    """Many rows at once give what each row gives alone, to the bit, and so do rows in a grid."""
    family = make().unwrapped
    D = family.observation_space.shape
    for now in situations(make):
        many = answers(family, now)
        shapes = {"reward": (ROWS,), "terminated": (ROWS,), "observation": (ROWS, *D)}
        for name, shape in shapes.items():
            got = np.shape(many[name])
            require(got == shape, f"{ROWS} rows have {name} of shape {got}, not {shape}; sum over axis -1")
        for row in range(ROWS):
            alone = answers(family, now.map(lambda array, row=row: array[row]))
            found = differ(alone, {name: part[row] for name, part in many.items()})
            require(not found, f"row {row} alone, and as one of {ROWS}: {found}; keep to elementwise, no @")
        grid = answers(family, now.map(lambda array: array.reshape(*LEAD, *array.shape[1:])))
        found = differ(many, {name: part.reshape(ROWS, *part.shape[2:]) for name, part in grid.items()})
        require(not found, f"{ROWS} rows, and a grid {LEAD} of them: {found}; count axes from the end")


def batched(make: EnvFactory) -> None:
    """All slots in one array play the same episodes, to the bit."""
    plays_like_singles(make, BatchedVecEnv)


DYNAMICS = (chance_comes_first, dynamics_are_functions, any_leading_axes, batched)
