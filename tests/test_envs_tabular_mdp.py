"""Tabular MDPs: the tables are what is played."""

import numpy as np
import pytest

from mamlrl_core.envs import BatchedVecEnv
from mamlrl_core.envs.tabular_mdp import TabularMDPEnv


def test_a_deterministic_mdp_is_played_by_hand():
    # Action a in state x leads to (x + a + 1) mod 3, whatever the noise.
    transitions = np.zeros((3, 2, 3))
    for x in range(3):
        for a in range(2):
            transitions[x, a, (x + a + 1) % 3] = 1.0
    rewards = np.arange(6.0).reshape(3, 2) * 100
    env = TabularMDPEnv(num_states=3, num_actions=2, horizon=4)
    env.reset_task({"transitions": transitions, "rewards": rewards})
    observation, _ = env.reset(seed=0)
    assert observation.tolist() == [1, 0, 0]
    noise = np.random.default_rng(0)
    noise.random(4)  # of the next states; that of the rewards follows
    for action, state, mean in ((0, 1, 0.0), (1, 0, 300.0), (1, 2, 100.0), (0, 0, 400.0)):
        observation, reward, *_ = env.step(action)
        assert observation.tolist() == np.eye(3)[state].tolist()
        assert reward == mean + noise.standard_normal()


def test_next_states_and_rewards_follow_the_tables():
    slots, horizon = 500, 400
    envs = BatchedVecEnv(lambda: TabularMDPEnv(num_states=4, num_actions=3, horizon=horizon), slots)
    task = envs.sample_tasks(1, np.random.default_rng(0))[0]
    envs.reset_task([task])
    observation, _ = envs.reset(seed=0)
    assert (observation.argmax(-1) == 0).all()
    rng, counts, noise = np.random.default_rng(1), np.zeros((4, 3, 4)), []
    for _ in range(horizon):
        state, action = observation.argmax(-1), rng.integers(3, size=slots)
        observation, reward, *_ = envs.step(action)
        assert (observation.sum(-1) == 1).all() and (observation.max(-1) == 1).all()
        np.add.at(counts, (state, action, observation.argmax(-1)), 1)
        noise.append(reward - task["rewards"][state, action])
    visits = counts.sum(-1, keepdims=True)
    p = task["transitions"]
    assert visits.min() > 1000
    assert (np.abs(counts / visits - p) <= 4.5 * np.sqrt(p * (1 - p) / visits)).all()
    noise = np.stack(noise)
    assert abs(noise.mean()) < 4 / np.sqrt(noise.size)
    assert abs(noise.var() - 1.0) < 4 * np.sqrt(2 / noise.size)


def test_the_tables_have_the_published_distribution():
    env = TabularMDPEnv()
    tasks = env.sample_tasks(400, np.random.default_rng(0))
    transitions = np.stack([task["transitions"] for task in tasks])
    rewards = np.stack([task["rewards"] for task in tasks])
    assert transitions.shape == (400, 10, 5, 10) and rewards.shape == (400, 10, 5)
    assert env.horizon == 10
    # A flat Dirichlet over 10 states: every probability has mean 1/10 and variance 9/1100.
    assert np.abs(transitions.mean((0, 1, 2)) - 0.1).max() < 4 * np.sqrt(9 / 1100 / 20000)
    assert np.abs(transitions.var((0, 1, 2)) - 9 / 1100).max() < 0.05 * 9 / 1100
    assert abs(rewards.mean() - 1.0) < 4 / np.sqrt(rewards.size)
    assert abs(rewards.var() - 1.0) < 4 * np.sqrt(2 / rewards.size)


def test_no_state_of_probability_zero_is_ever_drawn():
    almost_one = np.nextafter(1.0, 0.0)
    short = np.array([0.0, *[0.1] * 9, 0.0, 0.1 - 1e-9, 0.0])  # sums to a little less than 1
    long = np.array([0.0, 0.7, 0.2, 0.1 + 1e-9, 0.0])  # and to a little more
    for row in (short, long, np.array([0.0, 1.0]), np.array([0.0, 1.0, 0.0])):
        positive = np.flatnonzero(row)
        assert TabularMDPEnv.draw(row, np.float64(0.0)) == positive[0]
        assert TabularMDPEnv.draw(row, np.float64(almost_one)) == positive[-1]
        grid = np.linspace(0.0, almost_one, 1001)
        assert (row[TabularMDPEnv.draw(np.tile(row, (1001, 1)), grid)] > 0).all()


def test_the_inverse_cdf_by_hand():
    row = np.array([0.25, 0.5, 0.25])
    drawn = [int(TabularMDPEnv.draw(row, np.float64(u))) for u in (0.0, 0.2499, 0.25, 0.7499, 0.75, 0.9999)]
    assert drawn == [0, 0, 1, 1, 2, 2]


def test_rows_that_do_not_sum_to_one_are_named():
    env = TabularMDPEnv(num_states=2, num_actions=2)
    before = env.task
    transitions = np.full((2, 2, 2), 0.5)
    transitions[1, 0] = [0.5, 0.4]
    with pytest.raises(ValueError, match=r"transitions'\]\[1, 0\].*sum to 1.*0\.5 0\.4.*0\.9"):
        env.reset_task({"transitions": transitions, "rewards": np.zeros((2, 2))})
    transitions[1, 0] = [-0.5, 1.5]
    with pytest.raises(ValueError, match="transitions"):
        env.reset_task({"transitions": transitions, "rewards": np.zeros((2, 2))})
    assert env.task is before


def test_the_sizes_are_checked():
    with pytest.raises(ValueError, match=r"num_states.*1"):
        TabularMDPEnv(num_states=1)
    with pytest.raises(ValueError, match=r"num_actions.*2.5"):
        TabularMDPEnv(num_actions=2.5)
