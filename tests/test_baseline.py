"""The linear baseline against ``numpy.linalg.lstsq``."""

import numpy as np
import pytest
import torch

from mamlrl_core.advantages import discounted_returns
from mamlrl_core.baseline import LinearFeatureBaseline, explained_variance
from mamlrl_core.episodes import BatchEpisodes

N, T, B, D = 3, 12, 5, 2
LENGTHS = np.random.default_rng(1).integers(1, T + 1, (N, B))
MASK = torch.as_tensor(np.arange(T)[None, :, None] < LENGTHS[:, None, :])


def episodes(poison=0.0, dtype=torch.float64):
    rng = np.random.default_rng(0)
    observations = torch.as_tensor(rng.standard_normal((N, T, B, D)), dtype=dtype)
    rewards = torch.as_tensor(rng.standard_normal((N, T, B)), dtype=dtype)
    observations[~MASK], rewards[~MASK] = poison, poison
    return BatchEpisodes.create(observations, torch.zeros(N, T, B, 1, dtype=dtype), rewards, MASK)


def returns_of(batch):
    return discounted_returns(batch.rewards, batch.mask, 0.95)


def numpy_features(observations, mask):
    """The valid rows of one task, (rows, F)."""
    rows = []
    for t in range(mask.shape[0]):
        for b in range(mask.shape[1]):
            if mask[t, b]:
                o, time = observations[t, b], (t + 1) / 100
                rows.append([*o, *o**2, time, time**2, time**3, 1.0])
    return np.array(rows)


@pytest.mark.parametrize("ridge", [1e-5, 0.1])
def test_it_is_ridge_regression(ridge):
    batch, baseline = episodes(), LinearFeatureBaseline(ridge)
    returns = returns_of(batch)
    coefficients = baseline.fit(baseline.features(batch), returns)
    values = baseline.values(batch, returns)
    for i in range(N):
        phi = numpy_features(batch.observations[i].numpy(), batch.mask[i].numpy())
        y = returns[i][batch.mask[i]].numpy()
        penalty = np.sqrt(ridge) * np.eye(phi.shape[1])
        rows, targets = np.vstack([phi, penalty]), np.append(y, np.zeros(phi.shape[1]))
        expected = np.linalg.lstsq(rows, targets)[0]
        np.testing.assert_allclose(coefficients[i], expected, rtol=1e-6, atol=1e-6 * abs(expected).max())
        np.testing.assert_allclose(values[i][batch.mask[i]], phi @ expected, atol=1e-7)
    assert not values[~MASK].any()


@pytest.mark.parametrize("poison", [1e6, torch.nan, torch.inf])
def test_padding_changes_nothing(poison):
    baseline = LinearFeatureBaseline()
    clean, poisoned = (baseline.values(batch, returns_of(batch)) for batch in (episodes(), episodes(poison)))
    assert torch.equal(clean, poisoned)


def test_values_have_the_type_of_the_returns_and_the_solve_does_not():
    batch = episodes(dtype=torch.float32)
    baseline = LinearFeatureBaseline()
    assert baseline.values(batch, returns_of(batch)).dtype == torch.float32
    assert baseline.fit(baseline.features(batch), returns_of(batch)).dtype == torch.float64


def test_the_ridge_grows_where_the_equations_are_singular():
    """Two equal, large features: 1e-5 is lost in rounding next to their squares, and a pivot is zero."""
    batch = episodes()
    observations = batch.observations.clone()
    observations[1] = 1e5
    batch = BatchEpisodes.create(observations, batch.actions, batch.rewards, MASK)
    baseline, returns = LinearFeatureBaseline(), returns_of(batch)
    features = baseline.features(batch)
    phi = features.flatten(1, 2)
    gram = phi.mT @ phi
    _, info = torch.linalg.solve_ex(gram + 1e-5 * torch.eye(gram.shape[-1]), phi.mT @ phi[..., :1])
    assert info[1] > 0
    assert (info[[0, 2]] == 0).all()

    values = baseline.values(batch, returns)
    assert values.isfinite().all()
    assert (values[1] - returns[1])[MASK[1]].abs().max() < 10 * returns[1].abs().max()
    well_posed = episodes()
    untouched = baseline.fit(baseline.features(well_posed), returns)
    torch.testing.assert_close(baseline.fit(features, returns)[[0, 2]], untouched[[0, 2]], rtol=1e-12, atol=0)


def test_nan_stays_in_its_task():
    batch, baseline = episodes(), LinearFeatureBaseline()
    returns = returns_of(batch)
    clean = baseline.fit(baseline.features(batch), returns)
    returns[1, 0, 0] = torch.nan
    coefficients = baseline.fit(baseline.features(batch), returns)
    assert coefficients[1].isnan().all()
    assert torch.equal(coefficients[[0, 2]], clean[[0, 2]])


def test_explained_variance():
    returns = returns_of(episodes())
    mean = torch.stack([returns[i][MASK[i]].mean() for i in range(N)])[:, None, None].expand_as(returns)
    ones, zeros = torch.ones(N, dtype=torch.float64), torch.zeros(N, dtype=torch.float64)
    torch.testing.assert_close(explained_variance(returns + 3, returns, MASK), ones)
    torch.testing.assert_close(explained_variance(mean, returns, MASK), zeros)
    torch.testing.assert_close(explained_variance(-returns, returns, MASK), -3 * ones)


@pytest.mark.parametrize("ridge", [0.0, -1e-5, float("nan")])
def test_the_ridge_must_be_positive(ridge):
    with pytest.raises(ValueError, match=f"got {ridge}"):
        LinearFeatureBaseline(ridge)
