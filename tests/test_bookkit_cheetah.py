"""Both directions in one picture: distances read off rewards, adaptation, the explorer's frames."""

import re

import numpy as np
import pytest
import torch

pytest.importorskip("mujoco")

from bookkit import cheetah
from mamlrl_core.episodes import BatchEpisodes
from mamlrl_core.metrics import read_metrics
from mamlrl_core.training import load_policy


def test_rewards_tell_the_distance():
    rng = np.random.default_rng(0)
    velocity = rng.normal(size=(2, 7, 3))
    actions = rng.normal(0, 2, (2, 7, 3, 6))  # many beyond what the motors take
    cost = 0.05 * (np.clip(actions, -1, 1) ** 2).sum(-1)
    rewards = np.array([-1.0, 1.0])[:, None, None] * velocity - cost
    mask = torch.ones(2, 7, 3, dtype=torch.bool)
    batch = BatchEpisodes.create(torch.zeros(2, 7, 3, 17), torch.tensor(actions), torch.tensor(rewards), mask)
    paths = cheetah.paths(batch)
    assert paths.shape == (2, 8, 3) and (paths[:, 0] == 0).all()
    np.testing.assert_allclose(np.diff(paths, axis=1), 0.05 * velocity, atol=1e-6)


def test_a_step_sees_as_many_episodes_as_it_may():
    config, policy = load_policy(cheetah.DATA / "maml-1")
    every = cheetah.adapt_both_ways(policy, config, steps=1, episodes=2)
    first = cheetah.adapt_both_ways(policy, config, alpha=0.2, steps=1, episodes=2, learn_from=1)
    assert every[0].params is None and torch.equal(every[0].episodes.actions, first[0].episodes.actions)
    assert every[1].params["log_std"].shape == (2, 6)
    assert not torch.equal(every[1].params["log_std"], first[1].params["log_std"])
    assert every[1].returns.shape == (2, 2) and every[1].paths.shape == (2, 201, 2)


def test_tasks_can_be_drawn_again():
    again = cheetah.directions_of(cheetah.PRESET, 3)
    assert again.shape == (3, 40) and set(np.unique(again)) == {-1.0, 1.0}
    assert len({tuple(row) for row in again}) == 3
    np.testing.assert_array_equal(again, cheetah.directions_of(cheetah.PRESET, 3))


def test_a_frame_draws_metres_upwards():
    paths = np.stack([-np.ones((21, 5)), 2 * np.ones((21, 5))]) * np.linspace(0, 10, 21)[:, None]
    frame = cheetah.distance_frame(paths, np.array([-30.4, 201.6]))
    assert frame.readout == "return backwards −30, forwards 202; mean 86, the worse −30"
    drawn = re.findall(r'<path stroke[^>]*d="M0 0L.*?(\d+) (-?\d+)"/>', frame.svg)
    assert drawn == [("400", "50")] * 5 + [("400", "-100")] * 5  # five units a metre, y points down
    assert len(frame.svg) < 4000


def test_the_stored_sweep_holds_every_frame():
    sweep = cheetah.load_sweep()
    counts = len(cheetah.ALPHAS) * len(cheetah.LEARN_FROM) * (cheetah.STEPS + 1)
    assert len(sweep) == counts
    assert all(paths.shape == (2, 21, 5) and returns.shape == (2,) for paths, returns in sweep.values())


def test_a_trial_keeps_what_differs_from_the_preset():
    kept = cheetah.trial(cheetah.DATA / "maml-1")
    metrics = read_metrics(cheetah.DATA / "maml-1" / "metrics.jsonl")
    assert kept["settings"] == {} and kept["seed"] == 1 and kept["threads"] == 2
    (_, back), (_, forth) = np.transpose(kept["both_ways"])
    assert back > 300 > forth > 60  # the two clouds of its evaluation
    np.testing.assert_allclose(kept["returns"], [row["returns"] for row in metrics], atol=0.051)
