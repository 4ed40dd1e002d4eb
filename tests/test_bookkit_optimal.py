"""Optima against brute force, learners with a memory against simulations of their own."""

from itertools import product

import numpy as np
import pytest

from bookkit import optimal
from mamlrl_core.envs.bandit import BernoulliBanditEnv
from mamlrl_core.envs.base import stack_tasks
from mamlrl_core.envs.tabular_mdp import TabularMDPEnv
from mamlrl_core.policies import CategoricalMLPPolicy
from mamlrl_core.sampler import BatchSampler


def tiny_mdp(rng, states=3, actions=2):
    transitions = rng.dirichlet(np.ones(states), size=(states, actions))
    return transitions, rng.normal(1, 1, (states, actions))


def expected_return(transitions, rewards, table, horizon):
    """From state 0, by following the distribution over states forwards. table: (T, X) actions."""
    where, total = np.eye(len(rewards))[0], 0.0
    for t in range(horizon):
        steps = range(len(rewards))
        total += sum(where[x] * rewards[x, table[t, x]] for x in steps)
        where = sum(where[x] * transitions[x, table[t, x]] for x in steps)
    return total


def test_no_table_of_actions_beats_value_iteration():
    transitions, rewards = tiny_mdp(np.random.default_rng(0))
    values, actions = optimal.optimal_values(transitions, rewards, horizon=3)
    tables = [np.reshape(table, (3, 3)) for table in product(range(2), repeat=9)]
    returns = [expected_return(transitions, rewards, table, 3) for table in tables]
    assert values[0, 0] == pytest.approx(max(returns))
    assert expected_return(transitions, rewards, actions, 3) == pytest.approx(values[0, 0])
    assert values.shape == (4, 3) and (values[3] == 0).all()


def test_the_value_of_a_policy_is_its_expected_return():
    rng = np.random.default_rng(1)
    transitions, rewards = tiny_mdp(rng)
    table = rng.integers(2, size=(4, 3))
    value = optimal.policy_values(transitions, rewards, table, 4)[0]
    assert value == pytest.approx(expected_return(transitions, rewards, table, 4))
    # A policy that mixes two actions everywhere is the mean over all ways the coins may fall.
    tables = [np.reshape(coins, (2, 3)) for coins in product(range(2), repeat=6)]
    mixed = optimal.policy_values(transitions, rewards, np.full((3, 2), 0.5), 2)[0]
    assert mixed == pytest.approx(np.mean([expected_return(transitions, rewards, one, 2) for one in tables]))


def test_the_stationary_policy_is_the_best_in_small_worlds():
    rng = np.random.default_rng(2)
    worlds = [tiny_mdp(rng) for _ in range(30)]
    transitions, rewards = (np.stack(each) for each in zip(*worlds, strict=True))
    found = optimal.stationary_policy(transitions, rewards, 4)
    best = []
    for i in range(30):
        tables = [np.tile(one, (4, 1)) for one in product(range(2), repeat=3)]
        best.append(max(expected_return(transitions[i], rewards[i], table, 4) for table in tables))
    ours = optimal.policy_values(transitions, rewards, np.eye(2)[found], 4)[:, 0]
    assert (ours <= np.array(best) + 1e-12).all()
    assert np.isclose(ours, best).sum() >= 28


def strategies(k, pulls):
    """Expected rewards of the best strategy, by trying every arm at every history, in order and unsorted."""

    def best(history, left):
        if left == 0:
            return 0.0
        values = []
        for arm in range(k):
            wins = sum(won for a, won in history if a == arm)
            tried = sum(a == arm for a, _ in history)
            p = (wins + 1) / (tried + 2)
            yes, no = (best((*history, (arm, won)), left - 1) for won in (1, 0))
            values.append(p * (1 + yes) + (1 - p) * no)
        return max(values)

    return best((), pulls)


@pytest.mark.parametrize(("k", "pulls"), [(2, 1), (2, 4), (3, 3)])
def test_the_bayes_value_is_that_of_all_strategies(k, pulls):
    assert optimal.bayes_value(((0, 0),) * k, pulls) == pytest.approx(strategies(k, pulls))


def test_thompson_sampling_has_the_regret_of_a_plain_simulation():
    means, pulls = np.array([0.2, 0.5, 0.8]), 60
    family, rng = BernoulliBanditEnv(num_arms=3), np.random.default_rng(3)
    many = np.tile(means, (2000, 1))
    arms, rewards = optimal.play_bandit(family, many, rng.random((2000, pulls)), optimal.thompson(rng))
    ours = (0.8 - means[arms]).sum(1)

    def one_run(rng):
        wins, losses, lost = [0, 0, 0], [0, 0, 0], 0.0
        for _ in range(pulls):
            guesses = [rng.beta(w + 1, f + 1) for w, f in zip(wins, losses, strict=True)]
            arm = int(np.argmax(guesses))
            (wins if rng.random() < means[arm] else losses)[arm] += 1
            lost += 0.8 - means[arm]
        return lost

    theirs = np.array([one_run(np.random.default_rng((4, i))) for i in range(500)])
    error = np.sqrt(ours.var() / len(ours) + theirs.var() / len(theirs))
    assert abs(ours.mean() - theirs.mean()) < 4 * error
    assert rewards.mean() == pytest.approx(means[arms].mean(), abs=0.01)


def test_ucb1_tries_every_arm_and_then_follows_its_bound():
    family, means = BernoulliBanditEnv(num_arms=3), np.array([[0.1, 0.9, 0.5]])
    noise = np.random.default_rng(5).random((1, 200))
    arms, rewards = optimal.play_bandit(family, means, noise, optimal.ucb1)
    assert sorted(arms[0, :3]) == [0, 1, 2]
    for t in (3, 10, 199):
        seen = [rewards[0, :t][arms[0, :t] == a] for a in range(3)]
        bounds = [x.mean() + np.sqrt(2 * np.log(t) / len(x)) for x in seen]
        assert arms[0, t] == np.argmax(bounds)


def test_luck_is_what_the_sampler_plays_on():
    root, N, B = 123456789, 3, 4
    with BatchSampler("mamlrl/BernoulliBandit5-v0", N, B, seed=root) as sampler:
        family = sampler.envs.family
        tasks = sampler.sample_tasks(0)
        sampler.reset_task(tasks)
        played = sampler.sample(CategoricalMLPPolicy(1, 5, hidden_sizes=()), phase=1)
    noise = optimal.luck(family, root, N, B, phase=1)
    assert noise.shape == (N, B, 10)
    means = np.stack([task["means"] for task in tasks])
    arms = played.actions.numpy().transpose(0, 2, 1)  # (N, B, T)
    paid = family.reward(np.take_along_axis(means[:, None], arms, axis=-1), noise)
    np.testing.assert_array_equal(paid, played.rewards.numpy().transpose(0, 2, 1))


def stacked(count, seed):
    family = TabularMDPEnv(num_states=4, num_actions=3, horizon=5)
    return family, stack_tasks(family.sample_tasks(count, np.random.default_rng(seed)))


def test_episodes_by_a_table_earn_its_value():
    family, task = stacked(2, 6)
    many = {key: np.repeat(value, 4000, axis=0) for key, value in task.items()}
    table = np.random.default_rng(7).integers(3, size=(2, 5, 4))
    rng = np.random.default_rng(8)
    noise = np.stack([rng.random((8000, 5)), rng.standard_normal((8000, 5))], -1)
    states, actions, rewards = optimal.play_episode(family, many, noise, np.repeat(table, 4000, axis=0))
    assert (states[:, 0] == 0).all() and states.shape == actions.shape == rewards.shape == (8000, 5)
    expected = optimal.policy_values(task["transitions"], task["rewards"], table, 5)[:, 0]
    returns = rewards.sum(1).reshape(2, 4000)
    assert (np.abs(returns.mean(1) - expected) < 4 * returns.std(1) / np.sqrt(4000)).all()


def test_beliefs_count():
    beliefs = optimal.Beliefs(1, 2, 2)
    beliefs.update(np.array([[[0, 1, 1]]]), np.array([[[1, 0, 0]]]), np.array([[[3.0, 1.0, 5.0]]]))
    transitions, rewards = beliefs.mean()
    np.testing.assert_allclose(rewards[0], [[1, (1 + 3) / 2], [(1 + 1 + 5) / 3, 1]])
    np.testing.assert_allclose(transitions[0, 0, 1], [1 / 3, 2 / 3])
    np.testing.assert_allclose(transitions[0, 1, 0], [1 / 3, 2 / 3])  # the last step leads nowhere known
    np.testing.assert_allclose(transitions[0, 0, 0], [1 / 2, 1 / 2])
    draws = [beliefs.sample(np.random.default_rng(i)) for i in range(4000)]
    np.testing.assert_allclose(np.mean([p for p, _ in draws], 0), transitions, atol=0.03)
    np.testing.assert_allclose(np.mean([r for _, r in draws], 0), rewards, atol=0.08)
    np.testing.assert_allclose(np.var([r for _, r in draws], 0)[0, 1], [1 / 3, 1], rtol=0.15)


def test_posterior_sampling_comes_near_the_optimum():
    family, task = stacked(50, 9)
    rng = np.random.default_rng(10)
    noise = np.stack([rng.random((50, 60, 5)), rng.standard_normal((50, 60, 5))], -1)
    rewards = optimal.psrl(family, task, noise, rng)
    assert rewards.shape == (50, 60, 5)
    best = optimal.optimal_values(task["transitions"], task["rewards"], 5)[0][:, 0, 0].mean()
    first, last = rewards[:, :3].sum(-1).mean(), rewards[:, -20:].sum(-1).mean()
    assert first < 0.85 * best and 0.95 * best < last < 1.02 * best
