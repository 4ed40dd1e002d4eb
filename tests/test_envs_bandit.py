"""Bandits: closed forms for single steps, statistics against the means."""

import numpy as np
import pytest

from mamlrl_core.envs import BatchedVecEnv
from mamlrl_core.envs.bandit import BernoulliBanditEnv, GaussianBanditEnv


def pull(env_class, means, pulls=100_000):
    """The rewards of many pulls of every arm, shape (arms, pulls)."""
    arms = len(means)
    envs = BatchedVecEnv(lambda: env_class(num_arms=arms, horizon=pulls // 100), arms * 100)
    envs.reset_task([{"means": means}])
    envs.reset(seed=0)
    actions = np.arange(arms).repeat(100)
    rewards = [envs.step(actions)[1] for _ in range(pulls // 100)]  # (T, arms * 100)
    return np.stack(rewards, axis=-1).reshape(arms, pulls)


def test_bernoulli_arms_pay_with_their_probability():
    means = np.array([0.0, 0.03, 0.5, 0.9, 1.0])
    rewards = pull(BernoulliBanditEnv, means)
    assert set(np.unique(rewards)) == {0.0, 1.0}
    error = np.sqrt(means * (1 - means) / rewards.shape[1])  # standard error of the mean; zero at both ends
    assert (np.abs(rewards.mean(1) - means) <= 4 * error).all()


def test_gaussian_arms_pay_their_mean_plus_standard_normal_noise():
    means = np.array([-2.0, 0.0, 3.0])
    noise = pull(GaussianBanditEnv, means) - means[:, None]
    n = noise.shape[1]
    assert (np.abs(noise.mean(1)) < 4 / np.sqrt(n)).all()
    assert (np.abs(noise.var(1) - 1.0) < 4 * np.sqrt(2 / n)).all()
    assert np.abs(np.corrcoef(noise) - np.eye(3)).max() < 4 / np.sqrt(n)


@pytest.mark.parametrize(
    ("env_class", "mean", "variance", "lowest"),
    [(BernoulliBanditEnv, 0.5, 1 / 12, 0.0), (GaussianBanditEnv, 0.0, 1.0, -np.inf)],
)
def test_the_means_have_the_published_distribution(env_class, mean, variance, lowest):
    tasks = env_class(num_arms=50).sample_tasks(2000, np.random.default_rng(0))
    means = np.concatenate([task["means"] for task in tasks])
    assert abs(means.mean() - mean) < 4 * np.sqrt(variance / means.size)
    assert abs(means.var() - variance) < 8 * variance / np.sqrt(means.size)
    assert means.min() >= lowest


def test_the_observation_is_a_constant_that_is_not_padding():
    env = BernoulliBanditEnv(num_arms=3)
    assert env.reset(seed=0)[0].tolist() == [1.0]
    for arm in range(3):
        assert env.step(arm)[0].tolist() == [1.0]


def test_the_number_of_arms_is_checked():
    for num_arms in (1, 2.5):
        with pytest.raises(ValueError, match=f"num_arms={num_arms}"):
            BernoulliBanditEnv(num_arms=num_arms)
