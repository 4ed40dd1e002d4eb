"""Every intermediate of one meta-step against reference values of the historical implementation (float64)."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from mamlrl_core.advantages import discounted_returns, gae, weighted_normalize
from mamlrl_core.baseline import LinearFeatureBaseline
from mamlrl_core.episodes import BatchEpisodes
from mamlrl_core.metalearner import MetaBatch, MetaLearner
from mamlrl_core.optimization import Linearization, conjugate_gradient
from mamlrl_core.policies import CategoricalMLPPolicy, NormalMLPPolicy, flatten, unflatten

DATA = Path(__file__).parent / "data"
ARRAYS = np.load(DATA / "reference_f64.npz")
SETTINGS = json.loads((DATA / "reference_f64.json").read_text())
CASES = [name for name, case in SETTINGS.items() if "kind" in case]
EXACT, SOLVED, SEARCHED = 1e-9, 1e-6, 1e-5  # fair relative tolerances, see data/README.md


def assert_close(ours, reference, tolerance=EXACT, where=None):
    """Equal to ``tolerance`` times the largest magnitude of the reference."""
    ours, reference = np.asarray(ours), np.asarray(reference)
    assert ours.shape == reference.shape
    error = np.abs(ours - reference) if where is None else np.abs(ours - reference)[where]
    assert error.max() <= tolerance * np.abs(reference).max()


class Case:
    """One reference problem, in the shapes of this package."""

    def __init__(self, name):
        self.name, self.settings = name, SETTINGS[name]
        s = self.settings
        family = NormalMLPPolicy if s["kind"] == "normal" else CategoricalMLPPolicy
        self.policy = family(
            s["obs_dim"], s["act"], hidden_sizes=s["hidden"], nonlinearity=s["nonlinearity"]
        ).double()
        with torch.no_grad():
            for name_, tensor in unflatten(self["theta0"], self.policy.params()).items():
                self.policy.get_parameter(name_).copy_(tensor)

    def __getitem__(self, key):
        return torch.as_tensor(ARRAYS[f"{self.name}/{key}"])

    def stacked(self, key):
        """``task{n}/key`` of all tasks, the task axis first."""
        return torch.stack([self[f"task{n}/{key}"] for n in range(self.settings["tasks"])])

    def episodes(self, phase):
        advantages = self.stacked(f"{phase}/gae_tau{self.settings['tau']}_normalized")
        mask = self.stacked(f"{phase}/mask").bool()
        observations, actions, rewards = (
            self.stacked(f"{phase}/{key}") for key in ("observations", "actions", "rewards")
        )
        actions = actions.long() if self.settings["kind"] == "categorical" else actions
        return BatchEpisodes.create(observations, actions, rewards, mask, advantages)

    def batch(self):
        return MetaBatch((self.episodes("train"),), self.episodes("valid"))

    def learner(self, damping="1e-05", **kwargs):
        s = self.settings
        return MetaLearner(
            self.policy, fast_lr=s["fast_lr"], gamma=s["gamma"], gae_lambda=s["tau"], max_kl=s["max_kl"],
            cg_damping=float(damping), cg_iterations=s["cg_iters"], ls_max_steps=s["ls_max_steps"],
            ls_backtrack_ratio=s["ls_backtrack_ratio"], **kwargs,
        )  # fmt: skip


@pytest.fixture(params=CASES)
def case(request):
    return Case(request.param)


@pytest.mark.parametrize("phase", ["train", "valid"])
def test_returns_and_features(case, phase):
    episodes = case.episodes(phase)
    returns = discounted_returns(episodes.rewards, episodes.mask, case.settings["gamma"])
    assert_close(returns, case.stacked(f"{phase}/returns"))
    assert_close(LinearFeatureBaseline().features(episodes), case.stacked(f"{phase}/features"))


def test_baseline(case):
    episodes, baseline = case.episodes("train"), LinearFeatureBaseline(ridge=case.settings["reg_coeff"])
    returns = case.stacked("train/returns")
    assert_close(baseline.fit(baseline.features(episodes), returns), case.stacked("baseline_coeffs"))
    assert_close(baseline.values(episodes, returns), case.stacked("train/values"))


@pytest.mark.parametrize("tau", [1.0, 0.95])
@pytest.mark.parametrize("phase", ["train", "valid"])
def test_advantages(case, phase, tau):
    episodes = case.episodes(phase)
    ours = gae(episodes.rewards, case.stacked(f"{phase}/values"), episodes.mask, case.settings["gamma"], tau)
    assert_close(ours, case.stacked(f"{phase}/gae_tau{tau}"), where=episodes.mask)
    ours = weighted_normalize(ours, episodes.mask)
    assert_close(ours, case.stacked(f"{phase}/gae_tau{tau}_normalized"), where=episodes.mask)


def test_our_advantages_of_the_training_episodes(case):
    episodes = case.learner().estimate_advantages(case.episodes("train"))
    reference = case.stacked(f"train/gae_tau{case.settings['tau']}_normalized")
    assert_close(episodes.advantages, reference, where=episodes.mask)


def test_inner_loop(case):
    learner, train = case.learner(), case.episodes("train")
    losses = torch.func.vmap(learner.inner_loss, in_dims=(None, 0))(case.policy.params(), train)
    # Advantages have mean zero, so these losses nearly cancel: compare on the scale of their terms, 1.
    torch.testing.assert_close(losses, case.stacked("inner_loss"), rtol=0, atol=EXACT)
    gradient = torch.func.vmap(torch.func.grad(learner.inner_loss), in_dims=(None, 0))
    assert_close(torch.func.vmap(flatten)(gradient(case.policy.params(), train)), case.stacked("inner_grad"))
    adapted = learner.adapt_all(train, None, learner.step_size(0))
    assert_close(torch.func.vmap(flatten)(adapted), case.stacked("adapted_params"))
    valid = case.episodes("valid")
    pi = learner.adapted_policy(case["theta0"], case.batch())
    assert_close(pi.log_prob(valid.actions), case.stacked("valid/log_prob_adapted"), where=valid.mask)


def surrogate_gradient(learner, batch):
    theta = flatten(learner.policy.params()).requires_grad_()
    pi = learner.adapted_policy(theta, batch)
    old = pi.log_prob(batch.valid.actions).detach()
    return torch.autograd.grad(learner.surrogate_loss(pi, old, batch.valid), theta)[0]


def test_meta_gradient(case):
    assert_close(surrogate_gradient(case.learner(), case.batch()), case["meta_grad"])
    first_order = case.learner(first_order=True)
    assert_close(surrogate_gradient(first_order, case.batch()), case["meta_grad_first_order"])


@pytest.mark.parametrize("damping", ["0", "1e-05", "0.01"])
def test_curvature_product(case, damping):
    learner, batch = case.learner(damping), case.batch()
    product = learner.hessian_vector_product(
        Linearization(lambda x: learner.adapted_policy(x, batch), case["theta0"]), batch.valid
    )
    assert_close(product(case["hvp_vector"]), case[f"hvp_damping{damping}"])


@pytest.mark.parametrize("damping", ["1e-05", "0.01"])
def test_conjugate_gradient_on_the_curvature(case, damping):
    learner, batch = case.learner(damping), case.batch()
    line = Linearization(lambda x: learner.adapted_policy(x, batch), case["theta0"])
    product = learner.hessian_vector_product(line, batch.valid)
    for iterations in (1, 2, 5, 10):
        x = conjugate_gradient(product, case["meta_grad"], iterations, tolerance=0.0).x
        assert_close(x, case[f"cg_damping{damping}_iters{iterations}"], SOLVED)
    assert_close(0.5 * x.dot(product(x)), case[f"shs_damping{damping}"], SEARCHED)


@pytest.mark.parametrize("iterations", [1, 3, 10])
def test_conjugate_gradient_alone(iterations):
    a, b = torch.as_tensor(ARRAYS["cg/A"]), torch.as_tensor(ARRAYS["cg/b"])
    x = conjugate_gradient(lambda v: a @ v, b, iterations, tolerance=0.0).x
    assert_close(x, ARRAYS[f"cg/x_iters{iterations}"], SOLVED)


def swap_the_divergence(learner, monkeypatch):
    """The old code measures KL(new || old)."""
    ours = learner.kl_divergence
    monkeypatch.setattr(learner, "kl_divergence", lambda old, new, valid: ours(new, old, valid))


def test_surrogate_and_kl_at_a_displacement(case):
    learner, batch = case.learner(), case.batch()
    old = learner.adapted_policy(case["theta0"], batch)
    new = learner.adapted_policy(case["theta0"] + case["delta"], batch)
    loss = learner.surrogate_loss(new, old.log_prob(batch.valid.actions), batch.valid)
    assert_close(loss, case["surrogate_loss_at_delta"])
    assert_close(learner.kl_divergence(new, old, batch.valid), case["kl_at_delta"])  # arguments swapped


@pytest.mark.parametrize("damping", ["1e-05", "0.01"])
def test_whole_step(case, damping, monkeypatch):
    learner = case.learner(damping)
    swap_the_divergence(learner, monkeypatch)
    report = learner.step(case.batch())
    expected = case.settings["step"][f"damping{damping}"]
    assert report.accepted == expected["accepted"]
    assert report.trials == expected["line_search_evals"]
    assert_close(flatten(case.policy.params()), case[f"theta1_damping{damping}"], SOLVED)
    last_trial = case[f"line_search_damping{damping}"][-1]
    assert_close([report.new_loss, report.kl], last_trial, SEARCHED)
