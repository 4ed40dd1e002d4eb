"""Random tabular MDPs: a world that must be explored before it can be exploited.

A bandit has one state; here an action also decides where the agent stands next. Both the rewards and the map
are drawn anew for every task.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from .base import DynamicsEnv, Task, check_task


class TabularMDPEnv(DynamicsEnv):
    """An MDP with X states and A actions whose tables are the task.

    ===================  =========  =======================================================================
    task["transitions"]  (X, A, X)  probability of the next state: a flat Dirichlet over X for each (x, a)
    task["rewards"]      (X, A)     mean reward of taking a in x: normal with mean 1 and variance 1
    observation          (X,)       the state, one-hot; an episode starts in state 0
    action                          0 to A - 1
    reward                          the mean of (x, a) plus standard normal noise
    end                             after ``horizon`` steps, 10 by default
    ===================  =========  =======================================================================

    Source: Duan et al. 2016 (RL²), section 3.2, with its 10 states, 5 actions and horizon 10.
    """

    def __init__(self, num_states: int = 10, num_actions: int = 5, horizon: int = 10):
        for name, value in {"num_states": num_states, "num_actions": num_actions}.items():
            if int(value) != value or value < 2:
                raise ValueError(f"{name} is a whole number, at least 2, got {value!r}")
        self.num_states, self.num_actions = int(num_states), int(num_actions)
        pairs = (self.num_states, self.num_actions)
        self.observation_space = spaces.Box(0.0, 1.0, (self.num_states,), np.float32)
        self.action_space = spaces.Discrete(self.num_actions)
        self.task_space = spaces.Dict(
            {
                "transitions": spaces.Box(0.0, 1.0, (*pairs, self.num_states), np.float64),
                "rewards": spaces.Box(-np.inf, np.inf, pairs, np.float64),
            }
        )
        super().__init__(horizon)

    def sample_tasks(self, num_tasks: int, rng: np.random.Generator) -> list[Task]:
        pairs = (num_tasks, self.num_states, self.num_actions)
        transitions = rng.dirichlet(np.ones(self.num_states), size=pairs)  # (N, X, A, X)
        rewards = rng.normal(1.0, 1.0, size=pairs)  # (N, X, A)
        return [{"transitions": p, "rewards": r} for p, r in zip(transitions, rewards, strict=True)]

    def reset_task(self, task: Mapping[str, Any]) -> None:
        task = check_task(task, self.task_space)
        totals = task["transitions"].sum(-1)  # (X, A)
        wrong = np.argwhere(np.abs(totals - 1.0) > 1e-6)
        if len(wrong):
            x, a = wrong[0]
            raise ValueError(
                f"task['transitions'][{x}, {a}], the probabilities of the next state, must sum to 1, "
                f"got {task['transitions'][x, a]} with sum {totals[x, a]} ({len(wrong)} such rows)"
            )
        self.task = task

    def draw_noise(self, rng: np.random.Generator) -> np.ndarray:
        uniform = rng.random(self.horizon)  # decides the next state
        normal = rng.standard_normal(self.horizon)  # blurs the reward
        return np.stack([uniform, normal], axis=-1)  # (T, 2)

    def initial_state(self, task: Task, start: np.ndarray) -> np.ndarray:
        return np.zeros(task["rewards"].shape[:-2], dtype=np.int64)  # (...)

    def observe(self, state: np.ndarray, task: Task) -> np.ndarray:
        return (np.arange(self.num_states) == state[..., None]).astype(np.float64)  # (..., X)

    def transition(self, state: np.ndarray, action: np.ndarray, noise: np.ndarray, task: Task):
        # State and action together are one row number of the tables, seen as X·A rows.
        row = (state * self.num_actions + action)[..., None]  # (..., 1)
        rewards = task["rewards"].reshape(*state.shape, -1)  # (..., X·A)
        reward = np.take_along_axis(rewards, row, axis=-1)[..., 0] + noise[..., 1]  # (...)

        table = task["transitions"].reshape(*state.shape, -1, self.num_states)  # (..., X·A, X)
        probabilities = np.take_along_axis(table, row[..., None], axis=-2)[..., 0, :]  # (..., X)
        return self.draw(probabilities, noise[..., 0]), reward, np.zeros(state.shape, dtype=bool)

    @staticmethod
    def draw(probabilities: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """The state at which the cumulative probability first exceeds ``uniform``, shape (...).

        The cumulative sum may end a little below or above 1, so ``uniform`` is scaled to where it does end.
        As it is below 1, the product stays below that end, and no state of probability 0 is ever drawn.
        """
        cumulative = np.cumsum(probabilities, axis=-1)  # (..., X)
        threshold = uniform[..., None] * cumulative[..., -1:]  # (..., 1)
        return (cumulative <= threshold).sum(-1)  # (...)
