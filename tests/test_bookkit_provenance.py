"""What the notes beside the stored runs say agrees with the runs themselves."""

import json
import re
from dataclasses import asdict

import pytest

from bookkit import ROOT
from bookkit.provenance import digest
from mamlrl_core.config import PRESETS
from mamlrl_core.evaluation import Evaluation
from mamlrl_core.training import load_run

RUNS = sorted(path.parent for path in (ROOT / "book" / "data").glob("*/*/checkpoint.pt"))


def test_there_are_stored_runs():
    assert len(RUNS) >= 6


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.parent.name}/{run.name}")
def test_every_stored_run_has_a_true_note(run):
    note = json.loads((run.parent / "provenance.json").read_text())[run.name]
    config, state = load_run(run / "checkpoint.pt")
    (preset,) = (asdict(preset) for preset in PRESETS.values() if preset.env == config.env)
    assert {**preset, **note["settings"]} == json.loads(json.dumps(asdict(config)), object_hook=tuples)
    assert re.fullmatch("[0-9a-f]{40}", note["git_commit"])
    assert note["threads"] == state["threads"]
    assert note["evaluation_sha256"] == digest(run)
    assert Evaluation.load(run / "evaluation.json").config == config
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert metrics == state["metrics"]
    assert run.name == f"{config.method}-{config.seed}"


def tuples(values):
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
