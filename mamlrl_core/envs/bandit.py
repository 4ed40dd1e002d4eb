"""Multi-armed bandits: the smallest family of tasks worth learning to learn.

A task is a row of k mean rewards. Nothing is ever observed but the reward, so an agent that does well in a
new bandit has learned one thing only: how to try arms and when to stop trying.
"""

import numpy as np
from gymnasium import spaces

from .base import DynamicsEnv, Task


class BanditEnv(DynamicsEnv):
    """What the bandits share: k arms, one of which is pulled at every step.

    =============  =====  ==============================================================
    task["means"]  (k,)   the mean reward of every arm
    observation    (1,)   the constant 1 (an observation of zeros marks a finished slot)
    action                the arm to pull, 0 to k - 1
    end                   after ``horizon`` pulls, 10 by default
    =============  =====  ==============================================================

    The state is the constant that is observed. Source of the experiment: Duan et al. 2016 (RL²), section 3.1.
    """

    MEANS: tuple[float, float]  # the range that a mean must lie in

    def __init__(self, num_arms: int = 5, horizon: int = 10):
        if int(num_arms) != num_arms or num_arms < 2:
            raise ValueError(f"a bandit has a whole number of arms, at least 2, got num_arms={num_arms!r}")
        self.num_arms = int(num_arms)
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(self.num_arms)
        self.task_space = spaces.Dict({"means": spaces.Box(*self.MEANS, (self.num_arms,), np.float64)})
        super().__init__(horizon)

    def initial_state(self, task: Task, start: np.ndarray) -> np.ndarray:
        return np.ones_like(task["means"][..., :1])  # (..., 1)

    def observe(self, state: np.ndarray, task: Task) -> np.ndarray:
        return state

    def transition(self, state: np.ndarray, action: np.ndarray, noise: np.ndarray, task: Task):
        mean = np.take_along_axis(task["means"], action[..., None], axis=-1)[..., 0]  # (...)
        return state, self.reward(mean, noise), np.zeros_like(mean, dtype=bool)

    def reward(self, mean: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """The reward of pulling arms with these means, shape (...)."""
        raise NotImplementedError


class BernoulliBanditEnv(BanditEnv):
    """An arm pays 1 with probability ``means[arm]`` and 0 otherwise; the means are uniform in [0, 1]."""

    MEANS = (0.0, 1.0)

    def sample_tasks(self, num_tasks: int, rng: np.random.Generator) -> list[Task]:
        return [{"means": means} for means in rng.random((num_tasks, self.num_arms))]

    def draw_noise(self, rng: np.random.Generator) -> np.ndarray:
        return rng.random(self.horizon)  # (T,), in [0, 1): an arm of mean 0 never pays, one of mean 1 always

    def reward(self, mean: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return (noise < mean).astype(np.float64)


class GaussianBanditEnv(BanditEnv):
    """An arm pays ``means[arm]`` plus standard normal noise; the means are standard normal themselves.

    This is the Gaussian "k-armed testbed" of Sutton and Barto 2018, section 2.3.
    """

    MEANS = (-np.inf, np.inf)

    def sample_tasks(self, num_tasks: int, rng: np.random.Generator) -> list[Task]:
        return [{"means": means} for means in rng.standard_normal((num_tasks, self.num_arms))]

    def draw_noise(self, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal(self.horizon)  # (T,)

    def reward(self, mean: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return mean + noise
