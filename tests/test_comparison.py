"""Comparison: seeds pooled by textbook formulas, published figures beside them, the table, the drawing."""

import json
import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from mamlrl_core.comparison import (
    PUBLISHED,
    Curve,
    as_table,
    curves,
    normalised,
    plot,
    pool,
    published_curves,
)
from mamlrl_core.config import PRESETS, Config
from mamlrl_core.evaluation import Evaluation

WALK = Config(env="mamlrl/Navigation2D-v0", fast_lr=(0.3,))
BANDIT = Config(env="mamlrl/BernoulliBandit5-v0", fast_lr=(0.3,))


def invented(config=WALK, returns=((-40.0, -42.0), (-10.0, -14.0)), sizes=(0.3,)):
    return Evaluation(config, 0, 40, list(sizes), [list(row) for row in returns], {"torch": "2"})


def three_seeds():
    rows = {1: (1.0, 3.0), 2: (4.0, 8.0), 3: (0.0, 2.0)}
    return [invented(replace(WALK, seed=s), ((0.0, 1.0), rows[s])) for s in rows]


# ----------------------------------------------------------------------------------------------- numbers


def test_seeds_and_tasks_are_pooled_apart():
    curve = pool(three_seeds())
    means, all_returns = [2.0, 6.0, 1.0], [1.0, 3.0, 4.0, 8.0, 0.0, 2.0]
    assert curve.seeds == 3
    assert curve.mean[1] == pytest.approx(3.0)
    assert curve.over_seeds[1] == pytest.approx(statistics.stdev(means) / math.sqrt(3))
    assert curve.over_tasks[1] == pytest.approx(statistics.stdev(all_returns) / math.sqrt(6))


def test_the_interval_is_students():
    """4.3027 is the 97.5 % point of Student's t with two degrees of freedom, 2.9200 its 95 % point."""
    curve = pool(three_seeds())
    error = statistics.stdev([2.0, 6.0, 1.0]) / math.sqrt(3)
    assert curve.interval()[1] == pytest.approx([3 - 4.3027 * error, 3 + 4.3027 * error], rel=1e-4)
    assert curve.interval(0.9)[1] == pytest.approx([3 - 2.92 * error, 3 + 2.92 * error], rel=1e-4)
    assert curve.interval()[0] == pytest.approx([0.5, 0.5])  # all seeds agree


def test_the_interval_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        runs = [invented(replace(WALK, seed=s), ((0, 0), (x, x))) for s, x in enumerate(rng.normal(7, 2, 4))]
        low, high = pool(runs).interval()[1]
        hits += low < 7 < high
    assert 0.93 < hits / 2000 < 0.97


def test_one_seed_says_nothing_about_seeds():
    curve = pool([invented()])
    assert curve.seeds == 1 and np.isnan(curve.over_seeds).all() and np.isnan(curve.interval()).all()
    assert curve.over_tasks == pytest.approx([1, 2])


def test_the_gap_runs_from_the_untrained_policy_to_the_oracle():
    def curve(*mean):
        return Curve(np.array(mean), np.zeros(len(mean)), np.zeros(len(mean)))

    ends = {"random": curve(-50.0, -20.0), "oracle": curve(-10.0)}
    assert normalised(curve(-50.0, -10.0, -30.0, 0.0), ends) == pytest.approx([0, 1, 0.5, 1.25])
    assert np.isnan(normalised(ends["random"], {"random": ends["random"]})).all()


def test_published_figures_are_those_of_the_file():
    stored = json.loads(PUBLISHED.read_text())["tasks"]
    assert set(stored) == {"navigation-2d", "half-cheetah-direction", "half-cheetah-velocity",
                           "ant-direction", "ant-velocity"}  # fmt: skip
    for name, task in stored.items():
        theirs = published_curves(PRESETS[name].env)
        assert set(theirs) == set(task["methods"]) >= {"maml", "pretrained", "random", "oracle"}
        for method, rows in task["methods"].items():
            assert [row["k"] for row in rows] == list(range(len(rows)))
            assert theirs[method].mean.tolist() == [row["mean"] for row in rows]
            assert theirs[method].over_tasks.tolist() == [row["se"] for row in rows]
    assert published_curves("mamlrl/BernoulliBandit5-v0") == {}


def test_what_cannot_be_compared():
    with pytest.raises(ValueError, match="no evaluation"):
        curves([])
    with pytest.raises(ValueError, match=r"one task family .*\['mamlrl/BernoulliBandit5-v0', 'mamlrl/Nav"):
        curves([invented(), invented(BANDIT)])
    second = replace(WALK, seed=2)
    for other in (invented(), invented(replace(second, gamma=0.5)), invented(second, sizes=(1,))):
        with pytest.raises(ValueError, match="'maml' must differ in the training seed and in nothing else"):
            curves([invented(), other])


# ------------------------------------------------------------------------------------- table and drawing


def test_the_table():
    ends = [
        invented(replace(WALK, iterations=0), ((-80.0, -82.0),), ()),
        invented(replace(WALK, inner_steps=0, observe_task=True), ((-1.0, -1.0),), ()),
    ]
    head, first, second, *_, last = as_table([*ends, invented()]).splitlines()
    assert head.split()[:4] == ["method", "k", "seeds", "return"]
    assert first.split() == ["maml", "0", "1", "-41.00", "1.00", "-", "0.50", "-40.41", "2.07", "0.53"]
    assert second.split() == ["maml", "1", "1", "-12.00", "2.00", "-", "0.86", "-11.68", "1.12", "0.88"]
    assert last.split() == ["oracle", "0", "1", "-1.00", "0.00", "-", "1.00", "-2.29", "0.07", "1.00"]
    assert len({len(line) for line in as_table([*ends, invented()]).splitlines()}) == 1

    *_, row = as_table(three_seeds()).splitlines()
    assert row.split()[:8] == ["maml", "1", "3", "3.00", "1.15", "-3.6", "to", "9.6"]
    _, row, _ = as_table([invented(BANDIT)]).splitlines()
    assert row.split() == ["maml", "0", "1", "-41.00", "1.00", "-", "-"]


def drawn(evaluations):
    """label -> (means, standard errors) of what stands in the picture."""
    axes = Figure(layout="constrained").subplots()
    plot(evaluations, axes)
    found = {}
    for container in axes.containers:
        line, _, (bars,) = container
        ends = np.array(bars.get_segments())[:, :, 1]  # (points, 2)
        found[container.get_label()] = (line.get_ydata(), (ends[:, 1] - ends[:, 0]) / 2)
    return found


def test_one_seed_is_drawn_with_errors_over_tasks():
    mean, error = drawn([invented()])["maml"]
    np.testing.assert_allclose(mean, [-41, -12])
    np.testing.assert_allclose(error, [1, 2])


def test_seeds_are_drawn_with_errors_over_seeds():
    mean, error = drawn(three_seeds())["maml, 3 seeds"]
    np.testing.assert_allclose(mean, [0.5, 3])
    np.testing.assert_allclose(error, [0, statistics.stdev([2.0, 6.0, 1.0]) / math.sqrt(3)], atol=1e-12)


def test_published_curves_are_drawn_where_there_are_any():
    assert [label for label in drawn([invented()]) if "published" in label] == [
        f"{method}, published" for method in ("maml", "pretrained", "random", "oracle")
    ]
    np.testing.assert_allclose(drawn([invented()])["maml, published"][0][:2], [-40.41, -11.68])
    assert list(drawn([invented(BANDIT)])) == ["maml"]
