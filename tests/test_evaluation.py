"""Evaluation: the published protocol on held-out tasks, the same numbers everywhere, and their picture."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from mamlrl_core.config import Config
from mamlrl_core.envs import FAMILIES
from mamlrl_core.evaluation import Evaluation, evaluate
from mamlrl_core.seeding import Purpose, derive_seed
from mamlrl_core.training import Run, load_policy, make_learner, make_policy, make_sampler

TINY = {"num_tasks": 2, "episodes_per_task": 3, "hidden_sizes": (4,), "iterations": 1}
BANDIT = Config(env="mamlrl/BernoulliBandit5-v0", fast_lr=(0.5,), **TINY)
WALK = Config(env="mamlrl/Navigation2D-v0", fast_lr=(0.3,), **TINY)
SMALL = {"num_tasks": 3, "episodes_per_task": 4}


def untrained(config):
    with make_sampler(config) as sampler:
        return make_policy(config, sampler)


def invented(config=WALK, returns=((-40.0, -42.0), (-10.0, -14.0)), sizes=(0.3,)):
    return Evaluation(config, 0, 40, list(sizes), [list(row) for row in returns], {"torch": "2"})


# ---------------------------------------------------------------------------------------------- protocol


@pytest.mark.parametrize("config", [WALK, BANDIT], ids=["gaussian", "categorical"])
def test_against_plain_gradient_steps_task_by_task(config):
    """The same by a loop over tasks, autograd, and no vmap: play, step on those episodes, play."""
    policy = untrained(config)
    result = evaluate(config, policy, steps=2, seed=5, **SMALL)
    learner = make_learner(config, policy)
    expected = []
    with make_sampler(config, seed=derive_seed(5, Purpose.EVALUATION), **SMALL) as sampler:
        sampler.reset_task(sampler.sample_tasks(0))
        sets = [policy.params() for _ in range(3)]
        for k, alpha in enumerate([*config.fast_lr, config.fast_lr[-1] / 2, None]):
            stacked = {name: torch.stack([s[name] for s in sets]) for name in sets[0]}
            episodes = learner.estimate_advantages(sampler.sample(policy, stacked, phase=k))
            expected.append(episodes.rewards.sum(1).mean(1).tolist())
            if alpha is None:
                break
            for i, params in enumerate(sets):
                leaves = {name: tensor.clone().requires_grad_() for name, tensor in params.items()}
                pi = policy.apply(leaves, episodes.observations[i])
                mask = episodes.mask[i]
                loss = -(pi.log_prob(episodes.actions[i]) * episodes.advantages[i])[mask].mean()
                gradients = torch.autograd.grad(loss, list(leaves.values()))
                sets[i] = {name: params[name] - alpha * g for name, g in zip(leaves, gradients, strict=True)}
    assert result.step_sizes == [config.fast_lr[0], config.fast_lr[0] / 2]
    np.testing.assert_allclose(result.returns, expected, rtol=1e-4)


def test_the_same_seed_gives_the_same_numbers_on_every_backend():
    policy = untrained(WALK)
    first = evaluate(WALK, policy, steps=1, **SMALL)
    for backend in ("batched", "serial", "subproc"):
        again = evaluate(replace(WALK, backend=backend), policy, steps=1, **SMALL)
        assert again.returns == first.returns
    assert evaluate(WALK, policy, steps=1, seed=1, **SMALL).returns != first.returns


def test_more_steps_than_in_training_go_on_from_the_same_ones():
    policy = untrained(BANDIT)
    short, long = (evaluate(BANDIT, policy, steps=steps, **SMALL) for steps in (1, 4))
    assert long.returns[:2] == short.returns and len(long.returns) == 5
    assert long.step_sizes == [0.5, 0.25, 0.25, 0.25]
    chosen = evaluate(BANDIT, policy, steps=4, step_sizes=(0.3, 0.1), **SMALL)
    assert chosen.step_sizes == [0.3, 0.1, 0.1, 0.1]
    assert chosen.returns[0] == long.returns[0] and chosen.returns[1:] != long.returns[1:]
    assert evaluate(BANDIT, policy, steps=0, **SMALL).returns == long.returns[:1]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_can_be_evaluated(family):
    config = Config(env=family, **TINY)
    result = evaluate(config, untrained(config), num_tasks=2, episodes_per_task=2, steps=2)
    assert np.shape(result.returns) == (3, 2) and np.isfinite(result.returns).all()


def test_the_policy_is_left_alone():
    policy = untrained(WALK)
    before = [parameter.clone() for parameter in policy.parameters()]
    evaluate(WALK, policy, steps=2, **SMALL)
    assert all(torch.equal(a, b) for a, b in zip(policy.parameters(), before, strict=True))


def test_tasks_are_held_out():
    def goals(seed, iterations):
        with make_sampler(WALK, seed=seed, num_tasks=20) as sampler:
            return {tuple(task["goal"]) for i in range(iterations) for task in sampler.sample_tasks(i)}

    trained = set().union(*(goals(seed, 20) for seed in range(5)))
    held_out = set().union(*(goals(derive_seed(seed, Purpose.EVALUATION), 1) for seed in range(5)))
    assert len(trained) == 5 * 20 * 20 and len(held_out) == 5 * 20
    assert not trained & held_out


@pytest.mark.parametrize(
    ("changes", "method"),
    [
        ({}, "maml"),
        ({"inner_steps": 0}, "pretrained"),
        ({"iterations": 0}, "random"),
        ({"inner_steps": 0, "observe_task": True}, "oracle"),
    ],
)
@pytest.mark.parametrize("config", [WALK, BANDIT], ids=["gaussian", "categorical"])
def test_all_comparisons_come_from_the_same_learner(tmp_path, config, changes, method):
    config = replace(config, **changes)
    Run(config, tmp_path).train(progress=False)
    result = evaluate(*load_policy(tmp_path), steps=1, **SMALL)
    assert (result.method, result.env, result.config) == (method, config.env, config)
    assert np.isfinite(result.returns).all() and np.shape(result.returns) == (2, 3)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"num_tasks": 1}, "num_tasks must be at least 2, got 1"),
        ({"steps": -1}, "steps must be at least 0, got -1"),
        ({"step_sizes": (0.1, -0.5)}, "step_sizes must be positive and finite, got .*-0.5"),
        ({"step_sizes": (math.nan,)}, "step_sizes must be positive and finite, got .*nan"),
        ({"seed": -2}, "got seed=-2"),
        ({"episodes_per_task": 0}, "0 episodes per task"),
    ],
)
def test_what_cannot_be_evaluated(wrong, match):
    with pytest.raises(ValueError, match=match):
        evaluate(BANDIT, untrained(BANDIT), **{**SMALL, **wrong})


# ---------------------------------------------------------------------------------------------- results


def test_mean_and_standard_error():
    result = invented(returns=((1.0, 2.0, 3.0, 6.0), (0.0, 0.0, 0.0, 0.0)))
    np.testing.assert_allclose(result.mean, [3, 0])
    np.testing.assert_allclose(result.standard_error, [math.sqrt((4 + 1 + 0 + 9) / 3) / 2, 0])


def test_results_survive_the_file_and_the_file_is_strict_json(tmp_path):
    result = evaluate(BANDIT, untrained(BANDIT), steps=1, **SMALL)
    result.save(tmp_path / "result.json")
    assert Evaluation.load(tmp_path / "result.json") == result

    spoilt = replace(result, returns=[[1.0, math.nan], [2.0, math.inf]])
    spoilt.save(tmp_path / "spoilt.json")
    assert json.loads((tmp_path / "spoilt.json").read_text())["returns"] == [[1.0, None], [2.0, None]]
    np.testing.assert_equal(Evaluation.load(tmp_path / "spoilt.json").returns, [[1, math.nan], [2, math.nan]])


def test_files_that_evaluate_did_not_write(tmp_path):
    path = tmp_path / "result.json"
    invented().save(path)
    good = json.loads(path.read_text())
    for bad in (
        "",
        "no JSON",
        "\xff\xfe",
        "[1]",
        "{}",
        json.dumps({**good, "returns": [[1.0]]}),
        json.dumps({**good, "returns": [[1.0], [1.0, 2.0]]}),
        json.dumps({**good, "returns": 3}),
        json.dumps({**good, "returns": [[10**400, 1.0], [1.0, 2.0]]}),
        json.dumps({**good, "returns": [[] for _ in good["returns"]]}),
        json.dumps({**good, "returns": [row[:1] for row in good["returns"]]}),  # no error over tasks
        json.dumps({**good, "step_sizes": [-0.1] * len(good["step_sizes"])}),
        json.dumps({**good, "step_sizes": ["a"] * len(good["step_sizes"])}),
        json.dumps({**good, "seed": "zero"}),
        json.dumps({**good, "episodes_per_task": None}),
        "[" * 100_000,
        json.dumps({**good, "bogus": 3}),
        json.dumps({**good, "config": {"bogus": 3}}),
        json.dumps({name: value for name, value in good.items() if name != "seed"}),
    ):
        path.write_text(bad, encoding="latin-1")
        with pytest.raises(ValueError, match=r"result\.json was not written by evaluate"):
            Evaluation.load(path)
