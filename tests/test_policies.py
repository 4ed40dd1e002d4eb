"""Policies and their distributions, against ``torch.distributions`` and automatic differentiation."""

import math

import numpy as np
import pytest
import torch
from torch.func import hessian, vmap

from mamlrl_core.policies import (
    Categorical,
    CategoricalMLPPolicy,
    Normal,
    NormalMLPPolicy,
    flatten,
    unflatten,
)


def random_normal(generator):
    mean = torch.randn(5, 3, dtype=torch.float64, generator=generator)
    return Normal(mean, 0.5 * torch.randn(5, 3, dtype=torch.float64, generator=generator))


def random_categorical(generator):
    return Categorical(2 * torch.randn(5, 4, dtype=torch.float64, generator=generator))


def reference(pi):
    """The same distribution, by PyTorch."""
    if isinstance(pi, Normal):
        return torch.distributions.Independent(torch.distributions.Normal(pi.mean, pi.log_std.exp()), 1)
    return torch.distributions.Categorical(logits=pi.logits)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture(params=[random_normal, random_categorical])
def make(request):
    return request.param


def test_log_prob_and_kl(make, generator):
    old, new = make(generator), make(generator)
    actions = reference(old).sample((7,))
    broadcast = type(old)(*(component.expand(7, *component.shape) for component in old))
    torch.testing.assert_close(broadcast.log_prob(actions), reference(old).log_prob(actions))
    divergence = torch.distributions.kl_divergence(reference(old), reference(new))
    torch.testing.assert_close(old.kl(new), divergence)
    assert (old.kl(new) > 0).all()
    torch.testing.assert_close(old.kl(old), torch.zeros(5, dtype=torch.float64))


def test_curvature_is_the_hessian_of_the_kl(make, generator):
    old, tangent = make(generator), make(generator)
    like = old._asdict()

    def kl(vector):
        return old.kl(type(old)(**unflatten(vector, like))).sum()

    product = hessian(kl)(flatten(like)) @ flatten(tangent._asdict())
    torch.testing.assert_close(flatten(old.curvature(tangent)._asdict()), product)


def test_normal_samples():
    pi = Normal(torch.tensor([1.0, -2.0]), torch.tensor([0.0, math.log(3.0)]))
    noise = torch.as_tensor(np.random.default_rng(0).standard_normal((50_000, 2)), dtype=torch.float32)
    actions = pi.sample(noise)
    torch.testing.assert_close(actions.mean(0), pi.mean, rtol=0, atol=0.05)
    torch.testing.assert_close(actions.std(0), pi.log_std.exp(), rtol=0.02, atol=0)


def test_categorical_samples():
    pi = Categorical(torch.tensor([0.3, -1.0, 2.0, 0.0]))
    noise = (torch.arange(10_000) + 0.5) / 10_000  # evenly spread, so that counts are off by at most one
    actions = Categorical(pi.logits.expand(10_000, 4)).sample(noise)
    frequencies = torch.bincount(actions, minlength=4) / 10_000
    torch.testing.assert_close(frequencies, pi.logits.softmax(-1), rtol=0, atol=2e-4)


def test_categorical_never_draws_an_action_of_probability_zero_at_the_ends():
    pi = Categorical(torch.tensor([[-torch.inf, 0.0, 0.0]] * 2))
    just_below_one = torch.nextafter(torch.tensor(1.0), torch.tensor(0.0))
    assert pi.sample(torch.stack([torch.tensor(0.0), just_below_one])).tolist() == [1, 2]
    many = Categorical(torch.randn(1000, 50, generator=torch.Generator().manual_seed(0)))
    assert many.sample(torch.full((1000,), just_below_one.item())).max() <= 49


def test_parameters_become_one_vector_and_back():
    params = CategoricalMLPPolicy(3, 4, hidden_sizes=(5, 6)).params()
    vector = flatten(params)
    assert vector.shape == (3 * 5 + 5 + 5 * 6 + 6 + 6 * 4 + 4,)
    back = unflatten(vector, params)
    assert list(back) == list(params)
    assert all(torch.equal(back[name], params[name]) for name in params)
    assert torch.equal(flatten(unflatten(torch.arange(84.0), params)), torch.arange(84.0))


@pytest.mark.parametrize("hidden", [(), (4,), (4, 3)])
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_the_network(hidden, nonlinearity):
    policy = CategoricalMLPPolicy(2, 3, hidden_sizes=hidden, nonlinearity=nonlinearity)
    x = torch.randn(6, 7, 2)
    expected = x
    for i, layer in enumerate(policy.layers):
        expected = expected @ layer.weight.T + layer.bias
        if i < len(hidden):
            expected = torch.tanh(expected) if nonlinearity == "tanh" else expected.clamp(min=0)
    torch.testing.assert_close(policy(x).logits, expected)


def test_apply_is_the_policy_at_other_parameters(generator):
    policy, other = (NormalMLPPolicy(2, 3, hidden_sizes=(4,), generator=generator) for _ in range(2))
    before = flatten(policy.params())
    x = torch.randn(6, 2)
    for ours, expected in zip(policy.apply(other.params(), x), other(x), strict=True):
        assert torch.equal(ours, expected)
    assert torch.equal(flatten(policy.params()), before)

    stacked = {name: torch.stack([policy.params()[name], tensor]) for name, tensor in other.params().items()}
    pi = vmap(policy.apply)(stacked, torch.stack([x, x + 1]))
    torch.testing.assert_close(pi.mean, torch.stack([policy(x).mean, other(x + 1).mean]))


def test_initial_weights_come_from_the_generator_alone():
    state = torch.get_rng_state()
    streams = (torch.Generator().manual_seed(seed) for seed in (1, 1, 2))
    first, second, third = (NormalMLPPolicy(2, 2, hidden_sizes=(30,), generator=stream) for stream in streams)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(flatten(first.params()), flatten(second.params()))
    assert not torch.equal(first.layers[0].weight, third.layers[0].weight)
    assert not first.layers[0].bias.any()
    bound = math.sqrt(6 / (2 + 30))  # Glorot & Bengio 2010, equation 16
    assert 0.9 * bound < first.layers[0].weight.abs().max() <= bound


@pytest.mark.parametrize(("log_std", "clamped"), [(-50.0, 1e-6), (0.3, math.exp(0.3)), (5.0, 10.0)])
def test_the_standard_deviation_is_kept_in_range(log_std, clamped):
    policy = NormalMLPPolicy(2, 2, hidden_sizes=())
    with torch.no_grad():
        policy.log_std.fill_(log_std)
    torch.testing.assert_close(policy(torch.zeros(3, 2)).log_std.exp(), torch.full((3, 2), clamped))
    assert policy(torch.zeros(0, 2)).log_std.shape == (0, 2)


def test_noise_has_one_entry_per_step():
    rng = np.random.default_rng(0)
    assert NormalMLPPolicy(2, 3).draw_noise(rng, 11).shape == (11, 3)
    uniform = CategoricalMLPPolicy(2, 3).draw_noise(rng, 11)
    assert uniform.shape == (11,)
    assert ((uniform >= 0) & (uniform < 1)).all()


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="got 'sigmoid'"):
        NormalMLPPolicy(2, 2, nonlinearity="sigmoid")
    for init_std in (0.0, -1.0, 10.0, math.nan):
        with pytest.raises(ValueError, match=f"got {init_std}"):
            NormalMLPPolicy(2, 2, init_std=init_std)
