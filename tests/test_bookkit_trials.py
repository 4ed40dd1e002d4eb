"""What is kept of a trial is what its run says."""

import json
from dataclasses import replace

import numpy as np

from bookkit import comparison, trials
from mamlrl_core.config import PRESETS
from mamlrl_core.evaluation import evaluate
from mamlrl_core.training import Run, load_policy

SMALL = {"num_tasks": 2, "episodes_per_task": 3, "hidden_sizes": (4,), "iterations": 2}


def test_a_trial_keeps_its_settings_its_curve_and_its_evaluation(tmp_path, monkeypatch):
    run, config = tmp_path / "run", replace(PRESETS["tabular-mdp"], seed=7, **SMALL)
    with Run(config, run) as training:
        returns = [metrics["returns"] for metrics in training]
    _, policy = load_policy(run)
    scores = evaluate(config, policy, num_tasks=3, episodes_per_task=2, steps=1, seed=100)

    monkeypatch.setattr(trials, "DATA", tmp_path)
    (tmp_path / "some-family").mkdir()
    trials.main("some-family", [str(run)])
    scores.save(run / "evaluation.json")
    before, after = json.loads((tmp_path / "some-family" / "trials.json").read_text())[0], trials.trial(run)

    assert before["settings"] == {"num_tasks": 2, "episodes_per_task": 3, "hidden_sizes": [4]}
    assert before["seed"] == 7 and "held_out" not in before
    np.testing.assert_allclose(before["returns"], returns, atol=0.051)
    assert after["held_out"]["seed"] == 100
    np.testing.assert_allclose(after["held_out"]["returns"], scores.mean, atol=0.051)


def test_the_tasks_of_an_evaluation_can_be_drawn_again():
    stored = comparison.evaluations("navigation")["random"][0]
    goals = np.array([task["goal"] for task in comparison.held_out_tasks(stored)])  # (40, 2)
    assert goals.shape == (40, 2)
    # A policy that hardly moves earns about minus a hundred times the distance of the goal.
    far = np.linalg.norm(goals, axis=1)
    assert np.corrcoef(far, np.array(stored.returns)[0])[0, 1] < -0.8
