"""The meta-step against finite differences, explicit Hessians and the textbook, and what it refuses to do."""

import inspect
import math
from itertools import count

import numpy as np
import pytest
import torch
from textbook import Textbook
from torch.func import grad, hessian, vmap

from mamlrl_core import metalearner
from mamlrl_core.config import RULES
from mamlrl_core.episodes import BatchEpisodes
from mamlrl_core.metalearner import MetaBatch, MetaLearner
from mamlrl_core.optimization import Linearization, conjugate_gradient
from mamlrl_core.policies import CategoricalMLPPolicy, NormalMLPPolicy, flatten, unflatten

GAUSSIAN, CATEGORICAL = "gaussian", "categorical"
D, A = 2, 3


def make_learner(kind=GAUSSIAN, hidden=(4,), dtype=torch.float64, **settings):
    family = NormalMLPPolicy if kind == GAUSSIAN else CategoricalMLPPolicy
    policy = family(D, A, hidden_sizes=hidden, generator=torch.Generator().manual_seed(3)).to(dtype)
    return MetaLearner(policy, **{"fast_lr": 0.4, "gae_lambda": 0.9, **settings})


def make_episodes(kind=GAUSSIAN, seed=0, N=3, T=6, B=4, dtype=torch.float64, poison=0.0, ragged=True):
    """Random episodes without advantages; their padding held ``poison`` before it was cleared."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, T + 1, (N, B)) if ragged else np.full((N, B), T)
    mask = torch.as_tensor(np.arange(T)[None, :, None] < lengths[:, None, :])
    observations = torch.as_tensor(rng.standard_normal((N, T, B, D)), dtype=dtype)
    if kind == GAUSSIAN:
        actions = torch.as_tensor(rng.standard_normal((N, T, B, A)), dtype=dtype)
    else:
        actions = torch.as_tensor(rng.integers(0, A, (N, T, B)))
    rewards = torch.as_tensor(rng.standard_normal((N, T, B)), dtype=dtype)
    for tensor in (observations, rewards, *([actions] if kind == GAUSSIAN else [])):
        tensor[~mask] = poison
    return BatchEpisodes.create(observations, actions, rewards, mask)


def make_batch(learner, kind=GAUSSIAN, K=1, **episodes):
    seeds = count()
    return learner.sample(lambda params, phase: make_episodes(kind, next(seeds), **episodes), inner_steps=K)


def theta_of(learner):
    return flatten(learner.policy.params()).clone()


def meta_gradient(learner, batch):
    """As ``trust_region_step`` computes it."""
    line = Linearization(lambda x: learner.adapted_policy(x, batch), theta_of(learner))
    old = line.value
    return line.pull_back(grad(learner.surrogate_loss)(old, old.log_prob(batch.valid.actions), batch.valid))


def curvature_product(learner, batch):
    line = Linearization(lambda x: learner.adapted_policy(x, batch), theta_of(learner))
    return learner.hessian_vector_product(line, batch.valid)


def central_difference(function, x, v, epsilon=1e-5):
    return (function(x + epsilon * v) - function(x - epsilon * v)) / (2 * epsilon)


def assert_skipped(learner, batch, reason):
    before, skipped = theta_of(learner), learner.skipped
    report = learner.step(batch)
    assert not report.accepted
    assert reason in report.reason
    assert report.step_norm == 0
    assert report.skipped == learner.skipped == skipped + 1
    assert theta_of(learner).numpy().tobytes() == before.numpy().tobytes()
    return report


# ------------------------------------------------------------------------------------------ derivatives


@pytest.mark.parametrize("K", [0, 1, 2])
@pytest.mark.parametrize("kind", [GAUSSIAN, CATEGORICAL])
def test_meta_gradient_is_the_slope_of_the_surrogate(kind, K):
    learner = make_learner(kind)
    batch, theta = make_batch(learner, kind, K), theta_of(learner)
    old = learner.adapted_policy(theta, batch).log_prob(batch.valid.actions)

    def loss(x):
        return learner.surrogate_loss(learner.adapted_policy(x, batch), old, batch.valid)

    directions = torch.eye(len(theta), dtype=theta.dtype)
    slopes = torch.stack([central_difference(loss, theta, v) for v in directions])
    gradient = meta_gradient(learner, batch)
    torch.testing.assert_close(gradient, slopes, rtol=1e-6, atol=1e-8)
    assert learner.step(batch).gradient_norm == pytest.approx(float(gradient.norm()), rel=1e-12)


@pytest.mark.parametrize("K", [0, 1, 2])
@pytest.mark.parametrize("kind", [GAUSSIAN, CATEGORICAL])
def test_curvature_product_is_the_hessian_of_the_kl(kind, K):
    learner = make_learner(kind, cg_damping=0.25)
    batch, theta = make_batch(learner, kind, K), theta_of(learner)
    old = learner.adapted_policy(theta, batch)

    def kl(x):
        return learner.kl_divergence(old, learner.adapted_policy(x, batch), batch.valid)

    product = curvature_product(learner, batch)
    directions = torch.eye(len(theta), dtype=theta.dtype)
    ours = torch.stack([product(v) for v in directions])
    explicit = torch.autograd.functional.hessian(kl, theta)
    torch.testing.assert_close(ours, explicit + 0.25 * directions, rtol=1e-9, atol=1e-11)

    v = torch.randn(len(theta), dtype=theta.dtype, generator=torch.Generator().manual_seed(0))
    difference = central_difference(grad(kl), theta, v)
    torch.testing.assert_close(product(v), difference + 0.25 * v, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", [GAUSSIAN, CATEGORICAL])
def test_first_order_means_derivatives_at_the_adapted_parameters(kind):
    learner = make_learner(kind, first_order=True, cg_damping=0.0)
    batch = make_batch(learner, kind, K=2)
    adapted = None
    for k, train in enumerate(batch.train):
        adapted = learner.adapt_all(train, adapted, learner.step_size(k))

    def objectives(params, valid):
        """Of one task: the surrogate, and the KL to where it is."""
        old = learner.policy.apply({name: p.detach() for name, p in params.items()}, valid.observations)
        as_batch = BatchEpisodes(*(x[None] for x in valid))

        def loss(vector):
            pi = learner.policy.apply(unflatten(vector, params), valid.observations)
            one = type(pi)(*(x[None] for x in pi))
            return learner.surrogate_loss(one, old.log_prob(valid.actions)[None], as_batch)

        def kl(vector):
            pi = learner.policy.apply(unflatten(vector, params), valid.observations)
            return learner.kl_divergence(*(type(pi)(*(x[None] for x in p)) for p in (old, pi)), as_batch)

        return grad(loss)(flatten(params)), hessian(kl)(flatten(params))

    tasks = [
        objectives({n: p[i] for n, p in adapted.items()}, BatchEpisodes(*(x[i] for x in batch.valid)))
        for i in range(len(batch.valid.mask))
    ]
    gradient = torch.stack([g for g, _ in tasks]).mean(0)
    curvature = torch.stack([h for _, h in tasks]).mean(0)
    torch.testing.assert_close(meta_gradient(learner, batch), gradient)
    v = torch.randn(len(gradient), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(curvature_product(learner, batch)(v), curvature @ v)

    learner.first_order = False  # and both change when the inner gradient is differentiated
    assert (meta_gradient(learner, batch) - gradient).norm() > 0.05 * gradient.norm()
    second_order = curvature_product(learner, batch)(v)
    assert (second_order - curvature @ v).norm() > 0.05 * second_order.norm()


# ------------------------------------------------------------------------------------------ whole steps


@pytest.mark.parametrize("keep_graph", [True, False])
@pytest.mark.parametrize(
    ("kind", "K", "settings"),
    [
        (GAUSSIAN, 1, {}),
        (GAUSSIAN, 2, {"fast_lr": (0.4, 0.1)}),
        (GAUSSIAN, 1, {"first_order": True}),
        (GAUSSIAN, 1, {"hidden": ()}),
        (GAUSSIAN, 0, {"hidden": (4, 5)}),
        (CATEGORICAL, 1, {"hidden": (4, 5)}),
        (CATEGORICAL, 2, {}),
    ],
)
def test_step_equals_the_textbook(kind, K, settings, keep_graph):
    learner = make_learner(kind, cg_damping=1e-2, **settings)
    batch = make_batch(learner, kind, K)
    textbook = Textbook(learner, batch, keep_graph)
    expected = textbook.step()
    before = theta_of(learner)
    report = learner.step(batch)
    assert report.accepted
    assert report.trials == len(textbook.trials)
    assert (report.new_loss, report.kl) == pytest.approx(textbook.trials[-1], rel=1e-8)
    assert report.loss == pytest.approx(textbook.loss.item(), abs=1e-12)
    assert report.gradient_norm == pytest.approx(textbook.gradient.norm().item(), rel=1e-10)
    change = (expected - before).abs().max()
    torch.testing.assert_close(theta_of(learner), expected, rtol=0, atol=1e-8 * change.item())


@pytest.mark.parametrize("kind", [GAUSSIAN, CATEGORICAL])
@pytest.mark.parametrize(
    "shape", [{"N": 1}, {"B": 1}, {"N": 1, "B": 1, "T": 30}, {"T": 1}, {"N": 1, "T": 1, "B": 1}]
)
def test_small_batches(kind, shape):
    """A single step of a single episode leaves no advantage; everything else can be learned from."""
    learner = make_learner(kind)
    batch = make_batch(learner, kind, **shape)
    if shape == {"N": 1, "T": 1, "B": 1}:
        assert_skipped(learner, batch, "the gradient is zero")
    else:
        report = learner.step(batch)
        assert report.accepted, report.reason
        assert 0 < report.kl <= learner.max_kl
        assert theta_of(learner).isfinite().all()


def test_an_accepted_step_is_what_the_report_says():
    learner = make_learner()
    batch, before = make_batch(learner), theta_of(learner)
    old = learner.adapted_policy(before, batch)
    report = learner.step(batch)
    after = theta_of(learner)
    new = learner.adapted_policy(after, batch)
    loss = learner.surrogate_loss(new, old.log_prob(batch.valid.actions), batch.valid)
    assert report.accepted
    assert report.reason == ""
    assert report.skipped == 0
    assert report.new_loss == pytest.approx(float(loss), rel=1e-12)
    assert report.new_loss < report.loss
    assert report.kl == pytest.approx(float(learner.kl_divergence(old, new, batch.valid)), rel=1e-9)
    assert report.kl <= learner.max_kl
    assert report.step_norm == pytest.approx(float((after - before).norm()))
    assert 0 <= report.cg_residual < 1
    assert report.log_std == 0.0
    assert report.explained_variance <= 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("poison", [1e6, torch.nan])
def test_padding_changes_nothing(poison, dtype):
    steps = []
    for value in (0.0, poison):
        learner = make_learner(dtype=dtype)
        report = learner.step(make_batch(learner, K=2, dtype=dtype, poison=value))
        assert report.accepted
        steps.append((theta_of(learner), report))
    (clean, clean_report), (poisoned, poisoned_report) = steps
    assert torch.equal(clean, poisoned)
    assert clean_report == poisoned_report


def test_longer_padding_changes_nothing():
    learner = make_learner()
    batch = make_batch(learner)

    def longer(episodes):
        rest = [torch.cat([x, torch.zeros_like(x[:, :2])], dim=1) for x in episodes]
        return learner.estimate_advantages(BatchEpisodes(*rest))

    padded = MetaBatch(tuple(longer(train) for train in batch.train), longer(batch.valid))
    torch.testing.assert_close(meta_gradient(learner, padded), meta_gradient(learner, batch))
    v = torch.ones_like(theta_of(learner))
    torch.testing.assert_close(curvature_product(learner, padded)(v), curvature_product(learner, batch)(v))


# ------------------------------------------------------------------------------- curvature of a part


@pytest.mark.parametrize(("fraction", "episodes"), [(0.2, 1), (0.5, 2), (0.51, 3), (1.0, 4)])
def test_curvature_fraction(fraction, episodes, monkeypatch):
    learner = make_learner(curvature_fraction=fraction)
    batch = make_batch(learner, K=2, B=4)
    v = torch.ones_like(theta_of(learner))
    expected = curvature_product(learner, batch.first_episodes(episodes))(v)
    gradient = meta_gradient(learner, batch)

    used = []
    original = learner.hessian_vector_product

    def spy(line, valid):
        product = original(line, valid)
        used.append(product(v))
        return product

    monkeypatch.setattr(learner, "hessian_vector_product", spy)
    seen = []
    surrogate = learner.surrogate_loss
    monkeypatch.setattr(
        learner, "surrogate_loss", lambda pi, old, valid: seen.append(valid.mask) or surrogate(pi, old, valid)
    )
    report = learner.step(batch)
    assert len(used) == 1
    torch.testing.assert_close(used[0], expected)
    assert report.gradient_norm == pytest.approx(float(gradient.norm()))
    assert len(seen) == 1 + report.trials
    assert all(torch.equal(mask, batch.valid.mask) for mask in seen)


# ------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fast_lr", ()),
        ("fast_lr", 0.0),
        ("fast_lr", (0.1, -0.1)),
        ("fast_lr", [math.nan]),
        ("fast_lr", np.array([0.1, math.inf])),
        ("fast_lr", None),
        ("fast_lr", "0.1"),
        ("gamma", 1.1),
        ("gae_lambda", -0.1),
        ("first_order", "no"),
        ("max_kl", -0.01),
        ("max_kl", 0.0),
        ("max_kl", math.inf),
        ("cg_iterations", 0),
        ("cg_iterations", 2.5),
        ("cg_damping", -1e-9),
        ("cg_damping", math.nan),
        ("ls_max_steps", 0),
        ("ls_backtrack_ratio", 0.0),
        ("ls_backtrack_ratio", 1.1),
        ("curvature_fraction", 0.0),
        ("curvature_fraction", -0.1),
        ("curvature_fraction", 1.1),
        ("curvature_fraction", math.nan),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name_and_value(name, value):
    with pytest.raises(ValueError, match=f"^{name} must ") as refusal:
        make_learner(**{name: value})
    said = tuple(np.atleast_1d(value).tolist()) if name == "fast_lr" else value
    assert str(refusal.value).endswith(f"got {said!r}")


def test_every_setting_has_a_rule():
    assert set(inspect.signature(MetaLearner).parameters) - {"policy"} <= set(RULES)


def test_settings_may_be_numbers_of_numpy_and_pytorch():
    learner = make_learner(fast_lr=np.float64(0.25), gamma=np.float32(0.5), max_kl=torch.tensor(0.25))
    assert (learner.step_size(3), learner.gamma, learner.max_kl) == (0.25, 0.5, 0.25)
    assert make_learner(fast_lr=torch.tensor([0.5, 0.25])).step_size(1) == 0.25


# ------------------------------------------------------------------------------------------ adaptation


@pytest.mark.parametrize("kind", [GAUSSIAN, CATEGORICAL])
def test_adaptation_follows_the_gradient_of_each_task(kind):
    learner = make_learner(kind, fast_lr=(0.4, 0.1))
    first, second = (learner.estimate_advantages(make_episodes(kind, seed)) for seed in (0, 1))
    once = learner.adapt_all(first, None, 0.4)
    twice = learner.adapt_all(second, once, 0.1)
    for i in range(3):
        params = learner.policy.params()
        for alpha, episodes in ((0.4, first), (0.1, second)):
            task = BatchEpisodes(*(x[i] for x in episodes))
            params = {name: p.detach().requires_grad_() for name, p in params.items()}
            pi = learner.policy.apply(params, task.observations)
            loss = -(pi.log_prob(task.actions) * task.advantages)[task.mask].mean()
            slopes = torch.autograd.grad(loss, list(params.values()))
            params = {n: p - alpha * g for (n, p), g in zip(params.items(), slopes, strict=True)}
        for name, tensor in params.items():
            torch.testing.assert_close(twice[name][i], tensor)
            assert not twice[name].requires_grad
    adapted = vmap(learner.adapt, in_dims=(None, 0))(learner.policy.params(), (first, second))
    for name, tensor in adapted.items():
        torch.testing.assert_close(tensor, twice[name])


def test_step_sizes_repeat_their_last():
    learner = make_learner(fast_lr=(0.4, 0.1))
    assert [learner.step_size(k) for k in range(4)] == [0.4, 0.1, 0.1, 0.1]
    assert [make_learner(fast_lr=0.3).step_size(k) for k in range(2)] == [0.3, 0.3]


def test_sample_plays_with_the_parameters_it_has_adapted():
    learner = make_learner()
    calls = []

    def play(params, phase):
        calls.append((params, phase))
        return make_episodes(seed=phase)

    batch = learner.sample(play, inner_steps=2)
    assert [phase for _, phase in calls] == [0, 1, 2]
    assert calls[0][0] is None
    first = learner.adapt_all(learner.estimate_advantages(make_episodes(seed=0)), None, 0.4)
    for name, tensor in first.items():
        assert torch.equal(calls[1][0][name], tensor)
    assert len(batch.train) == 2
    assert torch.equal(batch.valid.rewards, make_episodes(seed=2).rewards)


# --------------------------------------------------------------------------------- what must do no harm


def with_rewards(episodes, change):
    rewards = episodes.rewards.clone()
    change(rewards)
    return BatchEpisodes.create(episodes.observations, episodes.actions, rewards, episodes.mask)


def spoil_task_one(rewards):
    rewards[1] = torch.nan


def spoil_one_reward(rewards):
    rewards[1, 0, 0] = torch.inf


@pytest.mark.parametrize("spoil", [spoil_task_one, spoil_one_reward])
@pytest.mark.parametrize("when", [0, 1, 2])
def test_spoilt_rewards_of_one_task(spoil, when):
    """The environment never meets parameters that are not finite; the update is skipped."""
    learner = make_learner()
    played = []

    def play(params, phase):
        played.append(params)
        episodes = make_episodes(seed=phase)
        return with_rewards(episodes, spoil) if phase == when else episodes

    batch = learner.sample(play, inner_steps=2)
    for params in played[1:]:
        assert all(tensor.isfinite().all() for tensor in params.values())
    theta = learner.policy.params()
    for phase in (0, 1):  # task 1 stays where it was in the phase that was spoilt, the others move
        before = theta if phase == 0 else {name: tensor[1] for name, tensor in played[phase].items()}
        after = {name: tensor[1] for name, tensor in played[phase + 1].items()}
        assert torch.equal(flatten(after), flatten(before)) == (phase == when)
        others = {name: tensor[0] for name, tensor in played[phase + 1].items()}
        assert not torch.equal(flatten(others), flatten(theta))
    report = assert_skipped(learner, batch, "not finite")
    assert report.trials == 0


def test_everything_spoilt():
    learner = make_learner()
    episodes = make_episodes()
    nan = BatchEpisodes.create(
        *(torch.full_like(x, torch.nan) for x in (episodes.observations, episodes.actions, episodes.rewards)),
        episodes.mask,
    )
    batch = learner.sample(lambda params, phase: nan)
    assert_skipped(learner, batch, "not finite")
    assert_skipped(learner, batch, "not finite")
    assert learner.skipped == 2


@pytest.mark.parametrize("value", [0.0, 1.0, -3e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("T", [1, 6, 100])
def test_all_equal_rewards(T, dtype, value):
    """Nothing to learn: what rounding leaves of a single step is not blown up into a direction.

    Over several steps the baseline misses the return by a function of time, and a small step may follow.
    """
    learner = make_learner(dtype=dtype)
    seeds = count()

    def play(params, phase):
        episodes = make_episodes(seed=next(seeds), T=T, B=20, dtype=dtype, ragged=False)
        return with_rewards(episodes, lambda rewards: rewards.fill_(value))

    batch = learner.sample(play)
    if T == 1 or value == 0:
        assert_skipped(learner, batch, "the gradient is zero")
    else:
        report = learner.step(batch)
        assert report.accepted == (report.reason == "")
        assert not report.accepted or report.kl <= learner.max_kl
        assert theta_of(learner).isfinite().all()


def test_no_advantage_no_step():
    learner = make_learner()
    batch = make_batch(learner)
    flat = batch._replace(valid=batch.valid._replace(advantages=torch.zeros_like(batch.valid.advantages)))
    assert_skipped(learner, flat, "the gradient is zero")


@pytest.mark.parametrize(
    "product",
    [
        lambda v: -v,
        lambda v: 0 * v,
        lambda v: torch.nan * v,
        lambda v: torch.sign(torch.arange(len(v)) - 3.5) * v,  # indefinite
    ],
)
def test_curvature_that_is_not_positive(product, monkeypatch):
    learner = make_learner()
    batch = make_batch(learner)
    monkeypatch.setattr(learner, "hessian_vector_product", lambda line, valid: product)
    report = assert_skipped(learner, batch, "the curvature is not positive")
    assert report.trials == 0
    assert math.isfinite(report.gradient_norm)


def test_a_direction_that_is_not_finite(monkeypatch):
    """Not that conjugate gradient should return one."""
    learner = make_learner()
    batch = make_batch(learner)

    def overflow(product, b, iterations):
        return conjugate_gradient(product, b, iterations)._replace(x=torch.full_like(b, torch.inf))

    monkeypatch.setattr(metalearner, "conjugate_gradient", overflow)
    monkeypatch.setattr(learner, "hessian_vector_product", lambda line, valid: lambda v: v)
    assert_skipped(learner, batch, "the step is not finite")


@pytest.mark.parametrize(("loss", "kl"), [(1e9, 0.0), (-1e9, 1.0), (math.nan, 0.0), (-1e9, math.nan)])
def test_a_line_search_that_fails(loss, kl, monkeypatch):
    learner = make_learner(ls_max_steps=4)
    batch = make_batch(learner)
    surrogate = learner.surrogate_loss
    calls = count()
    monkeypatch.setattr(
        learner,
        "surrogate_loss",
        lambda *args: surrogate(*args) if next(calls) == 0 else torch.tensor(loss, dtype=torch.float64),
    )
    monkeypatch.setattr(learner, "kl_divergence", lambda *args: torch.tensor(kl))
    report = assert_skipped(learner, batch, "line search")
    assert report.trials == 4
    assert (report.new_loss, report.kl) == pytest.approx((loss, kl), nan_ok=True)


def test_after_a_skipped_step_the_next_one_counts():
    learner = make_learner()
    batch = make_batch(learner)
    flat = batch._replace(valid=batch.valid._replace(advantages=torch.zeros_like(batch.valid.advantages)))
    learner.step(flat)
    report = learner.step(batch)
    assert report.accepted
    assert report.skipped == learner.skipped == 1
