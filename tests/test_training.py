"""Training runs: the same to the bit whatever happens to the process, and nobody else's files are touched."""

import fcntl
import json
import multiprocessing
import random
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import mamlrl_core.training as training
from mamlrl_core.checkpoint import FORMAT, VERSION, CheckpointError
from mamlrl_core.config import Config
from mamlrl_core.metrics import read_metrics
from mamlrl_core.training import Run, load_policy

TINY = {"num_tasks": 2, "episodes_per_task": 3, "hidden_sizes": (4,)}
BANDIT = Config(env="mamlrl/BernoulliBandit5-v0", iterations=4, **TINY)
WALK = Config(env="mamlrl/Navigation2D-v0", iterations=2, inner_steps=2, fast_lr=(0.5, 0.2), **TINY)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A run that nothing happened to."""
    run = Run(BANDIT, tmp_path_factory.mktemp("reference"))
    run.train(progress=False)
    return run


def untimed(metrics):
    return [{name: line[name] for name in line if not name.endswith("_seconds")} for line in metrics]


def same_parameters(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


def assert_same(directory, reference):
    """The files in ``directory`` say what those of the reference say."""
    assert same_parameters(load_policy(directory)[1], load_policy(reference)[1])
    metrics, expected = (read_metrics(path / "metrics.jsonl") for path in (directory, reference))
    assert untimed(metrics) == untimed(expected)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


# ------------------------------------------------------------------------------------------- a whole run


@pytest.mark.parametrize("backend", ["serial", "subproc"])
def test_the_backend_changes_nothing(reference, tmp_path, backend):
    with Run(replace(BANDIT, backend=backend), tmp_path) as run:
        run.train(progress=False)
    assert_same(tmp_path, reference.directory)


def test_a_simulated_body_is_trained_to_the_same_bits_on_every_backend_and_in_pieces(tmp_path):
    whole = Config(env="mamlrl/HalfCheetahDir-v0", iterations=2, **TINY)
    Run(whole, tmp_path / "whole").train(progress=False)
    for iterations, backend in ((1, "subproc"), (2, "serial")):
        with Run(replace(whole, iterations=iterations, backend=backend), tmp_path / "pieces") as run:
            run.train(progress=False)
    assert_same(tmp_path / "pieces", tmp_path / "whole")


def test_another_seed_is_another_run(reference, tmp_path):
    run = Run(replace(BANDIT, seed=2), tmp_path)
    assert untimed(run.train(progress=False)) != untimed(reference.metrics)


@pytest.mark.parametrize("config", [WALK, replace(WALK, inner_steps=0, observe_task=True)])
def test_what_is_written_down(tmp_path, config):
    run = Run(config, tmp_path)
    metrics = run.train(progress=False)
    assert [line["iteration"] for line in metrics] == [0, 1]
    assert all(len(line["returns"]) == config.inner_steps + 1 for line in metrics)
    assert metrics == read_metrics(run.metrics_path) == run.metrics
    assert Config.from_dict(json.loads(run.config_path.read_text())) == config
    stored, policy = load_policy(tmp_path)
    assert stored == config and same_parameters(policy, run.policy)


def test_metrics_are_strict_json(reference):
    def refuse(token):
        raise AssertionError(f"{token} is not JSON")

    for line in reference.metrics_path.read_text().splitlines():
        assert json.loads(line, parse_constant=refuse)["log_std"] is None  # a bandit's policy has none


def test_spoilt_rewards_are_null_and_the_update_is_skipped(tmp_path, monkeypatch):
    config = replace(BANDIT, iterations=1)
    run, untouched = Run(config, tmp_path), Run(config, tmp_path)
    play = run._play

    def spoilt(*args):
        episodes = play(*args)
        return episodes._replace(rewards=episodes.rewards * torch.nan)

    monkeypatch.setattr(run, "_play", spoilt)
    (metrics,) = run.train(progress=False)
    assert metrics["returns"] == [None, None] and metrics["skipped"] == 1
    assert metrics["reason"] and not metrics["accepted"]
    assert same_parameters(run.policy, untouched.policy)
    assert Run(config, tmp_path).learner.skipped == 1


def test_broken_episodes_are_counted_also_in_a_run_that_began_without(tmp_path, monkeypatch):
    """The simulation of one slot blows up in every batch of iteration 1, and of all six in iteration 2."""
    config = replace(WALK, iterations=3)
    (metrics,) = Run(replace(config, iterations=1), tmp_path).train(progress=False)
    assert metrics.pop("broken") == 0
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    torch.save({**state, "metrics": [metrics]}, tmp_path / "checkpoint.pt")  # as it was once written

    run = Run(config, tmp_path)
    family, slots = run.sampler.envs.family, np.arange(6)
    monkeypatch.setattr(family, "broken", lambda state: (slots < 1) if run.iteration == 1 else (slots < 9))
    move = family.transition
    monkeypatch.setattr(family, "transition", lambda *args: (*move(*args)[:2], np.ones(6, dtype=bool)))
    with pytest.warns(UserWarning, match=r"and so in \d of 6 episodes"):
        run.train(progress=False)
    lines = read_metrics(run.metrics_path)
    assert [line.get("broken") for line in lines] == [None, 3, 18]  # in the batches after 0, 1 and 2 steps


def test_no_iterations_store_the_untrained_policy(tmp_path):
    run = Run(replace(BANDIT, iterations=0), tmp_path)
    assert list(tmp_path.iterdir()) == []  # nothing is written before training starts
    assert run.train(progress=False) == []
    config, policy = load_policy(tmp_path)
    assert config.method == "random" and same_parameters(policy, run.policy)


# ----------------------------------------------------------------------------------- stopped and continued


def test_an_abandoned_loop_is_continued_by_another_run(reference, tmp_path):
    for metrics in Run(BANDIT, tmp_path):
        if metrics["iteration"] == 1:
            break
    assert load_policy(tmp_path)[0].iterations == 2  # done so far
    assert Run(BANDIT, tmp_path).iteration == 2
    Run(BANDIT, tmp_path).train(progress=False)
    assert_same(tmp_path, reference.directory)


def test_warm_up_ends_where_it_should_also_in_a_continued_run(tmp_path):
    config = replace(BANDIT, inner_steps=2, warmup_iterations=2)
    whole = Run(config, tmp_path / "whole").train(progress=False)
    assert [len(metrics["returns"]) for metrics in whole] == [2, 2, 3, 3]
    for iterations in (1, 3, 4):
        Run(replace(config, iterations=iterations), tmp_path / "pieces").train(progress=False)
    assert_same(tmp_path / "pieces", tmp_path / "whole")


def test_a_finished_run_goes_on_when_asked_for_more(reference, tmp_path):
    Run(replace(BANDIT, iterations=1), tmp_path).train(progress=False)
    Run(replace(BANDIT, backend="serial"), tmp_path).train(progress=False)
    assert_same(tmp_path, reference.directory)
    with pytest.raises(ValueError, match=r"iterations must be at least the 4 that .* got 3"):
        Run(replace(BANDIT, iterations=3), tmp_path)


@pytest.mark.parametrize("same_object", [True, False], ids=["same object", "new object"])
@pytest.mark.parametrize("when", ["half an update", "no checkpoint yet", "no line yet", "half a line"])
def test_an_interrupt_anywhere_in_an_iteration(reference, tmp_path, monkeypatch, when, same_object):
    run = Run(BANDIT, tmp_path)

    def half_update(batch, step=run.learner.step):
        report = step(batch)
        if run.iteration == 2:
            raise KeyboardInterrupt
        return report

    def before_checkpoint(path, state, save=training.save_checkpoint):
        if len(state["metrics"]) == 3:
            raise KeyboardInterrupt
        save(path, state)

    def before_line(path, state, save=training.save_checkpoint):
        save(path, state)
        if len(state["metrics"]) == 3:
            raise KeyboardInterrupt

    def half_line(metrics, as_line=training.as_line):
        if metrics["iteration"] == 2:
            with open(run.metrics_path, "a") as file:
                file.write(as_line(metrics)[:25])
            raise KeyboardInterrupt
        return as_line(metrics)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        if when == "half an update":
            patch.setattr(run.learner, "step", half_update)
        elif when == "no checkpoint yet":
            patch.setattr(training, "save_checkpoint", before_checkpoint)
        elif when == "no line yet":
            patch.setattr(training, "save_checkpoint", before_line)
        else:
            patch.setattr(training, "as_line", half_line)
        run.train(progress=False)
    (run if same_object else Run(BANDIT, tmp_path)).train(progress=False)
    assert_same(tmp_path, reference.directory)


def test_files_beside_the_checkpoint_are_made_whole_again(reference, tmp_path):
    for name, damage in {
        "missing": lambda path: path.unlink(),
        "torn": lambda path: path.write_text(path.read_text()[:-10]),
        "doubled": lambda path: path.write_text(path.read_text() * 2),
    }.items():
        directory = tmp_path / name
        Run(replace(BANDIT, iterations=2), directory).train(progress=False)
        damage(directory / "metrics.jsonl")
        (directory / "checkpoint.pt.partial").write_bytes(b"half")
        (directory / "config.json").unlink()
        Run(BANDIT, directory).train(progress=False)
        assert_same(directory, reference.directory)
        assert not list(directory.glob("*.partial"))
        assert json.loads((directory / "config.json").read_text())["iterations"] == 4


def train_alone(config, directory):
    torch.set_num_threads(1)
    Run(config, directory).train(progress=False)


@pytest.mark.timeout(300)
def test_sigkill_at_arbitrary_moments(tmp_path):
    """Kill it again and again, at moments that nobody chose, then let it finish: the bits are the same."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # imported once, not in every child
    config = replace(BANDIT, iterations=25)

    def start(directory):
        process = context.Process(target=train_alone, args=(config, directory))
        process.start()
        return process

    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    process = start(undisturbed)
    process.join()
    assert process.exitcode == 0

    rng, killed = random.Random(0), 0
    for _ in range(6):
        metrics = disturbed / "metrics.jsonl"
        before = metrics.read_bytes() if metrics.exists() else None
        process = start(disturbed)
        if rng.random() < 0.7:  # let it get on with its work first, or else it would never finish
            while process.is_alive() and (not metrics.exists() or metrics.read_bytes() == before):
                time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        process.join()
        killed += process.exitcode < 0
    assert killed >= 3
    process = start(disturbed)
    process.join()
    assert process.exitcode == 0
    assert_same(disturbed, undisturbed)
    assert len(read_metrics(disturbed / "metrics.jsonl")) == 25


# ------------------------------------------------------------------------------------------- refusals


def test_other_settings_are_refused_and_named(tmp_path):
    Run(replace(BANDIT, iterations=1), tmp_path).train(progress=False)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"other settings: seed was 1, now 2; gamma was 0.99, now 0.9$"):
        Run(replace(BANDIT, seed=2, gamma=0.9), tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["metrics.jsonl", "config.json"])
def test_files_of_somebody_else_are_not_overwritten(tmp_path, name):
    (tmp_path / name).write_text("precious")
    with pytest.raises(FileExistsError, match=name):
        Run(BANDIT, tmp_path)
    assert contents(tmp_path) == {name: b"precious"}


def test_unusable_checkpoints_are_refused_and_kept(tmp_path):
    run = Run(replace(BANDIT, iterations=1), tmp_path)
    run.train(progress=False)
    state = torch.load(run.checkpoint_path, weights_only=True)
    first = next(iter(state["policy"]))
    damaged = [
        {name: value for name, value in state.items() if name != "config"},
        {name: value for name, value in state.items() if name != "metrics"},
        {name: value for name, value in state.items() if name != "policy"},
        {**state, "config": {**state["config"], "learning_rate": 1}},
        {**state, "config": {**state["config"], "seed": "one"}},
        {**state, "config": None},
        {**state, "policy": {**state["policy"], first: torch.zeros(7, 7)}},
        {**state, "policy": {}},
        {"format": FORMAT, "version": VERSION},
    ]
    for bad in damaged:
        torch.save(bad, run.checkpoint_path)
        before = contents(tmp_path)
        for attempt in (lambda: Run(replace(BANDIT, iterations=1), tmp_path), lambda: load_policy(tmp_path)):
            with pytest.raises(CheckpointError, match=r"checkpoint\.pt does not"):
                attempt()
        assert contents(tmp_path) == before


@pytest.mark.parametrize("env", ["foo/Bar-v0", "CartPole-v1", "not an id"])
def test_what_is_no_task_family_is_refused(tmp_path, env):
    with pytest.raises(ValueError, match=f"env must be the id of a task family, got '{env}'"):
        Run(replace(BANDIT, env=env), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_two_processes_cannot_train_in_one_directory(reference, tmp_path):
    run = Run(BANDIT, tmp_path)
    with open(tmp_path / ".lock", "w") as other:  # another open file is another process to the kernel
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError, match="of another one, is training") as refusal:
            run.train(progress=False)
        assert refusal.value.filename == str(tmp_path)
        assert set(contents(tmp_path)) == {".lock"}
    run.train(progress=False)
    assert_same(tmp_path, reference.directory)


def test_two_runs_of_one_process_cannot_train_in_one_directory(reference, tmp_path):
    first, second = Run(BANDIT, tmp_path), Run(BANDIT, tmp_path)
    for metrics in first:
        for attempt in (lambda: second.train(progress=False), lambda: next(iter(second))):
            with pytest.raises(BlockingIOError, match="another run, of this process"):
                attempt()
        assert first.iteration == metrics["iteration"] + 1 and second.iteration == 0
    assert_same(tmp_path, reference.directory)
    assert untimed(second.train(progress=False)) == untimed(reference.metrics)  # the first has finished


def test_another_number_of_threads_is_told_once(tmp_path):
    run = Run(replace(BANDIT, iterations=1), tmp_path)
    run.train(progress=False)
    state = torch.load(run.checkpoint_path, weights_only=True)
    torch.save({**state, "threads": 99}, run.checkpoint_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Run(replace(BANDIT, iterations=2), tmp_path).train(progress=False)
    (warning,) = (str(warning.message) for warning in caught)
    assert warning.startswith(f"from 99 to {torch.get_num_threads()} threads")


def test_a_finished_run_keeps_the_number_of_threads_that_it_was_made_with(tmp_path, recwarn):
    run = Run(replace(BANDIT, iterations=1), tmp_path)
    run.train(progress=False)
    state = torch.load(run.checkpoint_path, weights_only=True)
    torch.save({**state, "threads": 99}, run.checkpoint_path)
    before = run.checkpoint_path.read_bytes()
    assert Run(run.config, tmp_path).train(progress=False) == run.metrics
    assert run.checkpoint_path.read_bytes() == before
    assert not [warning for warning in recwarn if "threads" in str(warning.message)]


# ------------------------------------------------------------------------------------------- TensorBoard


def test_tensorboard_sees_every_step_once(tmp_path):
    Run(replace(BANDIT, iterations=2), tmp_path).train(progress=False)
    for metrics in Run(replace(BANDIT, iterations=3), tmp_path):  # written to no board
        assert metrics["iteration"] == 2
    run = Run(BANDIT, tmp_path)
    run.train(progress=False)
    board = EventAccumulator(str(tmp_path)).Reload()
    tags = board.Tags()["scalars"]
    assert {"return/0", "return/1", "meta/kl", "meta/accepted", "meta/sample_seconds"} <= set(tags)
    assert not {"meta/log_std", "meta/reason", "meta/iteration"} & set(tags)
    for tag in ("return/0", "return/1", "meta/kl"):
        assert [event.step for event in board.Scalars(tag)] == [0, 1, 2, 3]
    drawn = [event.value for event in board.Scalars("return/1")]
    assert drawn == pytest.approx([line["returns"][1] for line in run.metrics])
