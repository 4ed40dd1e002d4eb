"""Advantages against sums written out as in the papers."""

import numpy as np
import pytest
import torch

from mamlrl_core.advantages import discounted_returns, gae, weighted_mean, weighted_normalize

N, T, B = 2, 9, 4
RNG = np.random.default_rng(0)
LENGTHS = np.array([[9, 1, 4, 7], [2, 9, 9, 3]])
MASK = np.arange(T)[None, :, None] < LENGTHS[:, None, :]  # (N, T, B)
REWARDS = RNG.standard_normal((N, T, B))
VALUES = RNG.standard_normal((N, T, B))


def tensors(*arrays, poison=torch.nan):
    """As tensors, with ``poison`` in the padding."""
    return [torch.where(torch.as_tensor(MASK), torch.as_tensor(x), poison) for x in arrays]


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_discounted_returns(gamma):
    (rewards,) = tensors(REWARDS)
    returns = discounted_returns(rewards, torch.as_tensor(MASK), gamma)
    for i, b in np.ndindex(N, B):
        end = LENGTHS[i, b]
        for t in range(T):
            expected = sum(gamma ** (s - t) * REWARDS[i, s, b] for s in range(t, end))
            assert returns[i, t, b].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_gae_is_the_double_sum(gamma, gae_lambda):
    """The mean over k of (k-step return - V_t), by weights (1 - lambda) lambda^(k-1), the rest at the end."""
    ours = gae(*tensors(REWARDS, VALUES), torch.as_tensor(MASK), gamma, gae_lambda)
    for i, b in np.ndindex(N, B):
        end = LENGTHS[i, b]
        for t in range(end):
            expected = 0.0
            for k in range(1, end - t + 1):
                k_step = sum(gamma**j * REWARDS[i, t + j, b] for j in range(k))
                if t + k < end:
                    k_step += gamma**k * VALUES[i, t + k, b]
                weight = gae_lambda ** (k - 1) * (1 - gae_lambda if t + k < end else 1)
                expected += weight * (k_step - VALUES[i, t, b])
            assert ours[i, t, b].item() == pytest.approx(expected, abs=1e-12)
        assert not ours[i, end:, b].any()


def test_gae_with_lambda_one_is_return_minus_value():
    rewards, values, mask = *tensors(REWARDS, VALUES, poison=0.0), torch.as_tensor(MASK)
    expected = discounted_returns(rewards, mask, 0.95) - values
    torch.testing.assert_close(gae(rewards, values, mask, 0.95, 1.0), expected)


def test_weighted_mean_pools_the_episodes_of_a_task():
    (x,) = tensors(REWARDS)
    expected = [REWARDS[i][MASK[i]].mean() for i in range(N)]
    torch.testing.assert_close(weighted_mean(x, torch.as_tensor(MASK)), torch.as_tensor(expected))


def test_weighted_normalize():
    (x,) = tensors(3 + 5 * REWARDS)
    ours = weighted_normalize(x, torch.as_tensor(MASK)).numpy()
    for i in range(N):
        valid = 3 + 5 * REWARDS[i][MASK[i]]
        expected = (valid - valid.mean()) / (valid.std() + 1e-8)
        np.testing.assert_allclose(ours[i][MASK[i]], expected, atol=1e-12)
        assert not ours[i][~MASK[i]].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, -7e8])
def test_nothing_is_made_of_rounding(value, dtype):
    mask = torch.as_tensor(MASK)
    constant = torch.full((N, T, B), value, dtype=dtype)
    assert not weighted_normalize(constant, mask).any()
    nearly = constant * (1 + 2e-7 * torch.as_tensor(REWARDS, dtype=dtype).sign())
    assert not weighted_normalize(nearly, mask).any()
    one_step = torch.arange(N * T * B).view(N, T, B) % (T * B) == 0
    assert not weighted_normalize(constant, one_step).any()


def test_small_but_real_differences_count():
    (x,) = tensors(1 + 1e-4 * REWARDS)
    valid = weighted_normalize(x, torch.as_tensor(MASK))[torch.as_tensor(MASK)]
    assert valid.square().mean().sqrt().item() == pytest.approx(1.0, rel=1e-3)


def test_a_task_with_nan_does_not_spoil_the_others():
    rewards, values, mask = *tensors(REWARDS, VALUES), torch.as_tensor(MASK)
    rewards[0, 0, 0] = torch.nan
    ours = weighted_normalize(gae(rewards, values, mask, 0.9, 0.9), mask)
    assert ours[0][mask[0]].isnan().all()
    assert ours[1].isfinite().all()


def test_rounding_is_judged_by_what_a_difference_was_computed_from():
    (x,) = tensors(1e-4 * REWARDS)
    mask = torch.as_tensor(MASK)
    large, larger = (torch.full_like(x, value) for value in (10.0, 1000.0))
    torch.testing.assert_close(weighted_normalize(x, mask, computed_from=large), weighted_normalize(x, mask))
    assert weighted_normalize(x, mask).any()
    assert not weighted_normalize(x, mask, computed_from=larger).any()
