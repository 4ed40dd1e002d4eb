"""Settings: what is refused and in which words, presets, and the trip through JSON."""

import inspect
import json
import math
from dataclasses import asdict, fields

import gymnasium
import numpy as np
import pytest
import torch

from mamlrl_core.config import PRESETS, RULES, Config
from mamlrl_core.envs import BACKENDS, FAMILIES
from mamlrl_core.policies import MLPPolicy


def test_every_setting_has_a_rule_and_a_line_of_help():
    assert [field.name for field in fields(Config)] == list(RULES)
    lines = inspect.getsource(Config).splitlines()
    for field in fields(Config):
        at = next(i for i, line in enumerate(lines) if line.startswith(f"    {field.name}: "))
        assert lines[at + 1].startswith('    """'), field.name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("env", 3),
        ("seed", -1),
        ("seed", 1.0),
        ("seed", True),
        ("iterations", -1),
        ("num_tasks", 0),
        ("episodes_per_task", 0),
        ("inner_steps", -1),
        ("observe_task", "no"),
        ("first_order", None),
        ("fast_lr", ()),
        ("fast_lr", (0.1, 0.0)),
        ("fast_lr", (math.nan,)),
        ("fast_lr", (math.inf,)),
        ("fast_lr", 0.1),
        ("gamma", -0.1),
        ("gamma", 1.1),
        ("gae_lambda", math.nan),
        ("hidden_sizes", (0,)),
        ("hidden_sizes", (8, 2.5)),
        ("hidden_sizes", 8),
        ("nonlinearity", "gelu"),
        ("init_std", 0.0),
        ("init_std", 10.0),
        ("max_kl", math.inf),
        ("max_kl", "0.1"),
        ("cg_iterations", 0),
        ("cg_damping", -1e-9),
        ("cg_damping", math.nan),
        ("ls_max_steps", 0),
        ("ls_backtrack_ratio", 0.0),
        ("curvature_fraction", 1.01),
        ("backend", "threads"),
    ],
)
def test_a_bad_value_is_refused_by_name_and_value(name, value):
    with pytest.raises(ValueError, match=f"^{name} must ") as refusal:
        Config(**{name: value})
    assert str(refusal.value).endswith(f"got {value!r}")


def test_edges_that_are_allowed():
    Config(gamma=0.0, gae_lambda=0, hidden_sizes=(), cg_damping=0, iterations=0, inner_steps=0, seed=2**200)


def test_a_config_survives_json():
    config = Config(fast_lr=(0.3, 0.1), hidden_sizes=(8, 4), observe_task=True, seed=2**100)
    assert Config.from_dict(json.loads(json.dumps(asdict(config)))) == config


def test_unknown_settings_are_named():
    with pytest.raises(ValueError, match=r"unknown settings: \['learning_rate', 'lr'\]"):
        Config.from_dict({"lr": 0.1, "learning_rate": 0.1, "seed": 1})


def test_what_a_run_stands_for():
    assert Config().method == "maml"
    assert Config(inner_steps=0).method == "pretrained"
    assert Config(iterations=0).method == "random"
    assert Config(inner_steps=0, observe_task=True).method == "oracle"


def test_the_step_sizes_at_test_time_go_on_with_half_of_the_last():
    sizes = [Config(fast_lr=(0.5, 0.2), inner_steps=2).step_size(k) for k in range(4)]
    assert sizes == [0.5, 0.2, 0.1, 0.1]
    assert [Config(fast_lr=(0.5,), inner_steps=0).step_size(k) for k in range(2)] == [0.5, 0.25]


def test_every_family_has_a_preset_that_names_it():
    assert {preset.env for preset in PRESETS.values()} == set(FAMILIES)
    assert all(preset.env in gymnasium.registry for preset in PRESETS.values())


def test_the_choices_are_those_of_the_modules_that_offer_them():
    for backend in BACKENDS:
        Config(backend=backend)
    for nonlinearity in MLPPolicy.NONLINEARITIES:
        Config(nonlinearity=nonlinearity)


def test_lists_become_tuples():
    assert Config(hidden_sizes=[8], fast_lr=[0.1]) == Config(hidden_sizes=(8,), fast_lr=(0.1,))


def test_numbers_of_numpy_and_pytorch_become_plain():
    config = Config(
        seed=np.int64(3), gamma=np.float32(0.5), max_kl=torch.tensor(0.25), fast_lr=[np.float32(0.5), 1]
    )
    assert config == Config(seed=3, gamma=0.5, max_kl=0.25, fast_lr=(0.5, 1))
    assert json.loads(json.dumps(asdict(config)))["fast_lr"] == [0.5, 1]
    with pytest.raises(ValueError, match="gamma must lie in"):
        Config(gamma=np.array([0.5]))
