"""What only the batched backend must refuse: environments that it would not play as they are written."""

import gymnasium
import numpy as np
import pytest
from envs_for_tests import RandomWalkEnv

from mamlrl_core.envs import BatchedVecEnv
from mamlrl_core.envs.navigation import Navigation2DEnv


def test_it_needs_dynamics_on_arrays():
    with pytest.raises(TypeError, match=r"RandomWalkEnv.*'serial' or 'subproc'"):
        BatchedVecEnv(RandomWalkEnv, 2)


def test_it_refuses_a_wrapper_that_it_would_bypass():
    with pytest.raises(TypeError, match="TransformReward"):
        BatchedVecEnv(lambda: gymnasium.wrappers.TransformReward(Navigation2DEnv(), lambda r: 2 * r), 2)
    with pytest.raises(TypeError, match="TimeLimit"):
        BatchedVecEnv(lambda: gymnasium.make("mamlrl/Navigation2D-v0", max_episode_steps=3), 2)
    envs = BatchedVecEnv(lambda: gymnasium.make("mamlrl/Navigation2D-v0"), 2)  # its own checks are no loss
    assert envs.reset(seed=0)[0].shape == (2, 2)


def test_a_frozen_slot_keeps_its_state():
    envs = BatchedVecEnv(lambda: Navigation2DEnv(horizon=50), 2)
    envs.reset_task([{"goal": [0.1, 0.0]}, {"goal": [9.0, 0.0]}])
    envs.reset(seed=0)
    for _ in range(20):
        envs.step(np.tile([1.0, 0.0], (2, 1)))
    assert envs._state == pytest.approx(np.array([[0.1, 0.0], [2.0, 0.0]]))


class StartsAtTheGoal(Navigation2DEnv):
    """The initial state is the task's own array: writing into it would move the goal."""

    def initial_state(self, task, start):
        return task["goal"]

    def transition(self, state, action, noise, task):
        state, reward, _ = super().transition(state, action, noise, task)
        return state, reward, state[..., 0] > 0.15


def test_an_initial_state_that_is_the_task_itself_leaves_the_task_alone():
    envs = BatchedVecEnv(StartsAtTheGoal, 2)
    envs.reset_task([{"goal": [0.0, 0.0]}, {"goal": [0.1, 0.0]}])
    envs.reset(seed=0)
    for _ in range(3):  # the second slot stops after the first step, and the first goes on alone
        envs.step(np.tile([1.0, 0.0], (2, 1)))
    assert envs._task["goal"].tolist() == [[0.0, 0.0], [0.1, 0.0]]
    assert envs._state == pytest.approx(np.array([[0.2, 0.0], [0.2, 0.0]]))
