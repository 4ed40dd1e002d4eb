"""One gradient step in a bandit: the gradient against autograd, the drawing against its numbers."""

import re

import numpy as np
import pytest
import torch

from bookkit import bandits
from bookkit.bandits import one_step, step_frame


@pytest.mark.parametrize("logits", [[0.0] * 5, [1.0, -1.0, 0.5, 0.0, 2.0]])
def test_the_gradient_is_that_of_autograd(logits):
    pulls, gain = 30, 7.0
    step = one_step(logits, gain, pulls, num_tasks=4)
    means, choice, luck = bandits._luck(4, 400)
    for i in range(4):
        z = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
        edges = np.cumsum(step.before)
        arms = np.searchsorted(edges[:-1], choice[i, :pulls], side="right")
        rewards = (luck[i, :pulls] < means[i, arms]).astype(float)
        advantages = torch.tensor((rewards - rewards.mean()) / (rewards.std() + 1e-8))
        (z.log_softmax(-1)[torch.tensor(arms)] * advantages).mean().backward()
        np.testing.assert_allclose(step.gradient[i], z.grad, atol=1e-7)
        np.testing.assert_allclose(step.after[i], (z + gain * z.grad).detach().softmax(-1), atol=1e-6)


def test_a_large_gain_commits_and_a_small_one_does_not():
    committed, timid = one_step([0.0] * 5, 1e4, 200), one_step([0.0] * 5, 1e-3, 200)
    assert (committed.after.max(1) > 0.99).mean() > 0.98
    assert np.abs(timid.after - 0.2).max() < 1e-3
    assert timid.earned.mean() == pytest.approx(10 * timid.means.mean(), abs=0.01)
    assert committed.earned.mean() > 0.95 * 10 * committed.means.max(1).mean()


def test_fewer_episodes_are_the_first_of_more():
    assert one_step([0.0] * 5, 1.0, 20) is not None
    means, choice, _ = bandits._luck(2000, 400)
    assert means.shape == (2000, 5) and choice.shape == (2000, 400)
    np.testing.assert_array_equal(one_step([0.0] * 5, 1.0, 10).means, one_step([0.0] * 5, 1.0, 200).means)


def test_a_frame_shows_its_numbers():
    frame, step = step_frame("no preference", 5, 30), one_step([0.0] * 5, 30, 50)
    heights = [int(h) for h in re.findall(rf"fill='{bandits.BLUE}' d='M\d+ 290v-?(\d+)h", frame.svg)]
    np.testing.assert_allclose(heights, 220 * step.after[bandits.SHOWN], atol=0.5)
    assert f"Mean of 2000 bandits: {step.earned.mean():.2f}" in frame.readout
    assert len(frame.svg) < 2000 and '"' not in frame.svg
