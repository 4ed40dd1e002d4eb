"""2-D navigation: walk from the origin to a goal that the agent is not told.

The MAML paper's first experiment in reinforcement learning (Finn et al. 2017, section 5.3). A task is a goal;
the observation is the position alone: the only way to find the goal is to walk, see the rewards, and adapt.
"""

import numpy as np
from gymnasium import spaces

from .base import DynamicsEnv, Task


class Navigation2DEnv(DynamicsEnv):
    """A point in the plane, rewarded by minus its distance to the goal.

    ============  =====  ==========================================================
    task["goal"]  (2,)   uniform in [-0.5, 0.5]²
    observation   (2,)   position; an episode starts at the origin
    action        (2,)   clipped to [-1, 1], then scaled to a step of at most 0.1 per axis
    reward               minus the Euclidean distance to the goal after the step
    end                  within 0.01 of the goal on both axes, or after ``horizon`` steps
    ============  =====  ==========================================================

    Source: Finn et al. 2017, section 5.3 and appendix A.3. The scaling of the action follows the published
    experiments, whose environments normalise actions to [-1, 1].
    """

    MAX_STEP = 0.1  # largest move along one axis
    ARRIVED = 0.01  # how near, on both axes, counts as having arrived

    def __init__(self, horizon: int = 100):
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.task_space = spaces.Dict({"goal": spaces.Box(-np.inf, np.inf, (2,), np.float64)})
        super().__init__(horizon)
        farthest = self.MAX_STEP * (self.horizon + 1)  # one step more than can be walked, for rounding's sake
        self.observation_space = spaces.Box(-farthest, farthest, (2,), np.float32)

    def sample_tasks(self, num_tasks: int, rng: np.random.Generator) -> list[Task]:
        return [{"goal": goal} for goal in rng.uniform(-0.5, 0.5, size=(num_tasks, 2))]

    def initial_state(self, task: Task, start: np.ndarray) -> np.ndarray:
        return np.zeros_like(task["goal"])  # (..., 2)

    def observe(self, state: np.ndarray, task: Task) -> np.ndarray:
        return state  # the goal stays hidden

    def transition(self, state: np.ndarray, action: np.ndarray, noise: np.ndarray, task: Task):
        state = state + self.MAX_STEP * np.clip(action, -1.0, 1.0)  # (..., 2)
        offset = state - task["goal"]
        arrived = (np.abs(offset) < self.ARRIVED).all(-1)
        return state, -self.distance(offset), arrived

    @staticmethod
    def distance(offset: np.ndarray) -> np.ndarray:
        # Written out rather than np.linalg.norm, whose summation may depend on the array's shape.
        return np.sqrt(offset[..., 0] * offset[..., 0] + offset[..., 1] * offset[..., 1])


class Navigation2DSparseEnv(Navigation2DEnv):
    """2-D navigation in the dark: no reward at all until the agent comes within 0.2 of the goal.

    Inside that disc the reward rises from 0 at its edge to 1 at the goal, 1 - distance / 0.2. Arriving does
    not end the episode, since that would punish it: the agent is paid for every step it stays.
    """

    REWARD_RADIUS = 0.2

    def transition(self, state: np.ndarray, action: np.ndarray, noise: np.ndarray, task: Task):
        state, negative_distance, arrived = super().transition(state, action, noise, task)
        reward = np.maximum(0.0, 1.0 + negative_distance / self.REWARD_RADIUS)
        return state, reward, np.zeros_like(arrived)
