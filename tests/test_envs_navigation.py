"""2-D navigation: walks whose end and rewards are known."""

import numpy as np
import pytest

from mamlrl_core.envs.navigation import Navigation2DEnv, Navigation2DSparseEnv


def walk(env, goal, actions):
    env.reset_task({"goal": goal})
    assert env.reset(seed=0)[0].tolist() == [0.0, 0.0]
    return [env.step(np.array(action, np.float32))[:4] for action in actions]


def test_a_walk_by_hand():
    steps = walk(Navigation2DEnv(), [0.3, 0.4], [(0, 0), (1, 0), (-1, 0), (5, -0.5), (0.25, 1)])
    positions = [(0, 0), (0.1, 0), (0, 0), (0.1, -0.05), (0.125, 0.05)]
    for (observation, reward, terminated, truncated), position in zip(steps, positions, strict=True):
        assert observation == pytest.approx(position, abs=1e-7)
        assert reward == pytest.approx(-np.hypot(0.3 - position[0], 0.4 - position[1]), abs=1e-12)
        assert not terminated and not truncated
    assert steps[0][1] == -0.5


def test_arriving_ends_the_episode_within_a_hundredth_on_both_axes():
    for offset, arrives in ((0.0, True), (0.0099, True), (0.0101, False)):
        for goal in ([0.1 + offset, 0.1], [0.1, 0.1 - offset]):
            ((_, reward, terminated, truncated),) = walk(Navigation2DEnv(), goal, [(1, 1)])
            assert terminated == arrives and not truncated
            assert reward == pytest.approx(-offset, abs=1e-12)


def test_arriving_at_the_horizon_is_both():
    assert walk(Navigation2DEnv(horizon=1), [0.1, 0.0], [(1, 0)])[0][2:] == (True, True)


def test_the_agent_sees_no_goal():
    env = Navigation2DEnv()
    for goal in ([0.1, 0.2], [-0.3, 0.5]):
        assert walk(env, goal, [(0.5, -0.5)])[0][0] == pytest.approx([0.05, -0.05])


def test_no_walk_leaves_the_observation_space():
    for direction in (1, -1):
        steps = walk(Navigation2DEnv(), [direction, 0], [(0, direction)] * 100)
        assert all(observation in Navigation2DEnv().observation_space for observation, *_ in steps)
        assert steps[-1][3]


def test_goals_are_uniform_in_the_square():
    tasks = Navigation2DEnv().sample_tasks(20000, np.random.default_rng(0))
    goals = np.stack([task["goal"] for task in tasks])
    assert np.abs(goals).max() <= 0.5
    assert np.abs(goals.mean(0)).max() < 4 * np.sqrt(1 / 12 / 20000)
    counts, *_ = np.histogram2d(*goals.T, bins=4, range=[[-0.5, 0.5]] * 2)
    assert np.abs(counts - 1250).max() < 5 * np.sqrt(1250)


def test_the_sparse_reward_is_a_cone_and_arriving_does_not_end():
    for distance, reward in ((0.0, 1.0), (0.05, 0.75), (0.15, 0.25), (0.2, 0.0), (0.7, 0.0)):
        steps = walk(Navigation2DSparseEnv(), [0.1 + distance, 0.0], [(1, 0), (0, 0)])
        for _, got, terminated, _ in steps:
            assert got == pytest.approx(reward, abs=1e-12) and not terminated
