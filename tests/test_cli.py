"""The command line, as somebody in a terminal meets it."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from mamlrl_core.__main__ import main
from mamlrl_core.config import PRESETS
from mamlrl_core.envs import FAMILIES
from mamlrl_core.metrics import read_metrics

TINY = ["--num-tasks", "2", "--episodes-per-task", "2", "--hidden-sizes", "4"]


@pytest.fixture
def call(tmp_path, monkeypatch, capfd):
    """Run a command in an empty directory: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    handler = signal.getsignal(signal.SIGINT)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["mamlrl_core", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as exit:
            code = exit.code
            if isinstance(code, str):  # which the interpreter prints
                print(code, file=sys.stderr)
                code = 1
        out, err = capfd.readouterr()
        return code, out, err

    yield run
    signal.signal(signal.SIGINT, handler)


def start(directory, *arguments, extra_path=()):
    """The same in a process of its own, as a shell would start it."""
    root = os.path.dirname(os.path.dirname(__file__))
    return subprocess.Popen(
        [sys.executable, "-m", "mamlrl_core", *map(str, arguments)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, *map(str, extra_path)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_train_evaluate_plot(call, tmp_path):
    code, out, err = call("train", "bernoulli-bandit-5", *TINY, "--iterations", 2, "--quiet")
    assert code == 0 and err == ""
    said = "runs/bernoulli-bandit-5-maml-1: mamlrl/BernoulliBandit5-v0, maml, 2 iterations"
    assert out.splitlines()[-1] == said
    run = tmp_path / "runs/bernoulli-bandit-5-maml-1"

    evaluate = ["evaluate", run, "--num-tasks", 3, "--episodes-per-task", 2, "--steps", 1]
    code, out, _ = call(*evaluate)
    assert code == 0 and out.splitlines()[-1] == str(run / "evaluation.json")
    first = json.loads((run / "evaluation.json").read_text())
    assert call(*evaluate, "--out", "other.json")[0] == 0
    assert json.loads((tmp_path / "other.json").read_text()) == first

    for picture, magic in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml")):
        assert call("plot", "other.json", "--out", picture)[0] == 0
        assert (tmp_path / picture).read_bytes().startswith(magic)


def test_the_preset_may_be_left_out_and_out_stands_anywhere(call, tmp_path):
    preset, quick = "navigation-2d", [*TINY, "--iterations", 0, "--quiet"]
    for arguments in (["--out", "a", preset, *quick], [*quick, "--out", "b"], [preset, "--out", "c", *quick]):
        assert call("train", *arguments)[0] == 0
    settings = [json.loads((tmp_path / name / "config.json").read_text()) for name in "abc"]
    assert settings[0] == settings[1] == settings[2]
    assert settings[0]["env"] == PRESETS["navigation-2d"].env and settings[0]["hidden_sizes"] == [4]


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_every_preset_trains(call, preset):
    """A warm-up is cut to the first iteration, so that the second one trains all of the inner steps."""
    settings = PRESETS[preset]
    short = ["--iterations", 2, "--warmup-iterations", min(1, settings.warmup_iterations)]
    assert call("train", preset, *TINY, *short, "--out", "run", "--quiet")[0] == 0
    metrics = read_metrics("run/metrics.jsonl")
    assert [line["iteration"] for line in metrics] == [0, 1]
    assert len(metrics[1]["returns"]) == settings.inner_steps + 1 >= 2
    assert all(None not in line["returns"] and line["broken"] == 0 for line in metrics)
    assert any(line["accepted"] and line["step_norm"] > 0 for line in metrics)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["train", "no-such-preset"], 2, "no-such-preset"),
        (["train", "--bogus", 3], 2, "--bogus"),
        (["train", "--seed", "x"], 2, "--seed"),
        (["train", "--seed", -1], 2, "seed must be a whole number, at least 0, got -1"),
        (["train", "--gamma", "nan"], 2, "gamma must lie in [0, 1], got nan"),
        (["train", "--max-kl", "inf"], 2, "max_kl must be positive and finite, got inf"),
        (["train", "--nonlinearity", "gelu"], 2, "gelu"),
        (["train", "--hidden-sizes", 0], 2, "hidden_sizes must hold positive whole numbers, got (0,)"),
        (["train", "--env", "foo/Bar-v0"], 1, "error: env must be the id of a task family, got 'foo/Bar-v0'"),
        (["train", "--out", "afile"], 1, "error: afile: File exists"),
        (["train", "--out", "afile/run"], 1, "error: afile/run: Not a directory"),
        (["evaluate", "nowhere"], 1, "error: nowhere/checkpoint.pt: No such file or directory"),
        (["plot"], 1, "error: only one task family can be compared, got no evaluation"),
        (["plot", "nowhere.json"], 1, "error: nowhere.json: No such file or directory"),
        (["plot", "afile"], 1, "error: afile was not written by evaluate"),
        (["plot", "--out", "noending"], 1, "must end in .svg, .png, .pdf or the like, got 'noending'"),
        ([], 2, "{train,evaluate,plot,render,envs}"),
    ],
)
def test_mistakes_are_told_in_a_line(call, tmp_path, arguments, code, said):
    (tmp_path / "afile").write_text("hello")
    got, out, err = call(*arguments)
    words = "".join((out + err).replace("│", " ").split())  # out of the box that tyro draws
    assert got == code and "".join(said.split()) in words and "Traceback" not in words
    if code == 1:
        assert len(err.splitlines()) == 1
    assert os.listdir(tmp_path) == ["afile"]


def test_other_settings_for_a_run_and_a_spoilt_checkpoint(call, tmp_path):
    train = ["train", "bernoulli-bandit-5", *TINY, "--iterations", 1, "--out", "run", "--quiet"]
    assert call(*train)[0] == 0
    code, _, err = call(*train, "--gamma", 0.5)
    assert (code, err) == (1, "error: run holds a run with other settings: gamma was 0.99, now 0.5\n")
    checkpoint = tmp_path / "run/checkpoint.pt"
    checkpoint.write_bytes(half := checkpoint.read_bytes()[:1000])
    for command in (train, ["evaluate", "run"]):
        code, _, err = call(*command)
        assert code == 1 and err.startswith("error: run/checkpoint.pt is truncated, damaged, or not")
    assert checkpoint.read_bytes() == half


@pytest.mark.parametrize("command", ["evaluate", "render"])
def test_where_nothing_can_be_written_is_told_before_anything_is_played(call, tmp_path, monkeypatch, command):
    run = ["train", "bernoulli-bandit-5", *TINY, "--iterations", 0, "--out", "run", "--quiet"]
    assert call(*run)[0] == 0
    (tmp_path / "afile").touch()
    monkeypatch.setattr("mamlrl_core.evaluation.evaluate", None)
    monkeypatch.setattr("mamlrl_core.rendering.render", None)
    code, out, err = call(command, "run", "--out", "afile/a.gif")
    assert (code, out, err) == (1, "", "error: afile/a.gif: Not a directory\n")


def test_envs_lists_every_family(call):
    code, out, _ = call("envs")
    assert code == 0
    for family in FAMILIES:
        assert f"{family}\n" in out
    assert "goal (2,)" in out and "0..4" in out and "(2,) in [-1, 1]" in out and "100 steps" in out
    assert "direction () in [-1, 1]" in out and "(27,)\n" in out and "(8,) in [-1, 1]" in out


MY_FAMILY = """
import gymnasium
from mamlrl_core.envs.navigation import Navigation2DEnv

class Bay(Navigation2DEnv):
    def sample_tasks(self, num_tasks, rng):
        return [{"goal": abs(task["goal"])} for task in super().sample_tasks(num_tasks, rng)]

class Drifting(Bay):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward - 1.0, *rest

gymnasium.register("mine/Bay-v0", Bay, kwargs={"horizon": 5})
gymnasium.register("mine/Drifting-v0", Drifting, kwargs={"horizon": 5})
"""


def test_a_family_of_ones_own_is_checked_trained_and_evaluated(tmp_path):
    (tmp_path / "bay.py").write_text(MY_FAMILY)

    def run(*arguments):
        process = start(tmp_path, *arguments)
        out, err = process.communicate(timeout=100)
        return process.returncode, out, err

    code, out, err = run("envs", "--check", "bay:mine/Bay-v0")
    assert (code, err) == (0, "") and out == "bay:mine/Bay-v0 keeps all 22 promises of a task family\n"
    code, out, err = run("envs", "--check", "bay:mine/Drifting-v0")
    first, second, *_ = err.splitlines()
    assert (code, out) == (1, "")
    assert first == "error: bay:mine/Drifting-v0 breaks a promise of a task family."
    assert second.startswith("  batched: slot 0 of 8 played another episode than one alone")

    for backend in ("batched", "subproc"):
        train = ["train", "--env", "bay:mine/Bay-v0", *TINY, "--iterations", 1, "--backend", backend]
        code, out, err = run(*train, "--quiet", "--seed", len(backend))
        directory = f"runs/bay-mine-Bay-v0-maml-{len(backend)}"
        assert (code, err) == (0, "")
        assert out.splitlines()[-1] == f"{directory}: bay:mine/Bay-v0, maml, 1 iterations"
        assert run("evaluate", directory, "--num-tasks", 3, "--episodes-per-task", 2)[0] == 0
    code, _, err = run("train", "--env", "cove:mine/Bay-v0", "--out", "cove")
    assert code == 1 and "cove" in err and len(err.splitlines()) == 1


def test_without_mujoco_everything_else_works_and_a_line_tells_what_to_install(tmp_path):
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text("import sys; sys.modules['mujoco'] = None")
    told = "the locomotion families need MuJoCo: pip install 'mamlrl-core[mujoco]'"
    cheetah = ["train", "half-cheetah-direction", *TINY, "--out", "cheetah"]
    bandit = ["train", "bernoulli-bandit-5", *TINY, "--iterations", 1, "--out", "bandit", "--quiet"]
    commands = [["envs"], cheetah, bandit]
    processes = [start(tmp_path, *command, extra_path=[blocked]) for command in commands]
    (listed, *_), (_, refused), (trained, _) = (process.communicate(timeout=100) for process in processes)
    assert [process.returncode for process in processes] == [0, 1, 0]
    families = [block.splitlines() for block in listed.strip().split("\n\n")]
    assert [family[0] for family in families] == list(FAMILIES)
    for family in families:
        if FAMILIES[family[0]][0] == "locomotion":
            (preset,) = (name for name, config in PRESETS.items() if config.env == family[0])
            assert family[1:] == [f"    {told}", f"    preset       {preset}"]
        else:
            assert len(family) == 7
    assert refused == f"error: {told}\n" and not (tmp_path / "cheetah").exists()
    assert "bandit: mamlrl/BernoulliBandit5-v0, maml, 1 iterations" in trained


@pytest.mark.timeout(300)
def test_ctrl_c_is_answered_in_a_line_and_the_command_goes_on(tmp_path):
    train = ["train", "bernoulli-bandit-5", *TINY, "--out", "run"]
    process = start(tmp_path, *train, "--iterations", 10_000)
    metrics = tmp_path / "run/metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.01)
    for _ in range(2):  # an impatient user
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.005)
    _, err = process.communicate(timeout=100)
    done = len(read_metrics(metrics))
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in err and "Exception" not in err
    assert err.strip().splitlines()[-1].startswith("stopped after ") and "the same command continues" in err

    process = start(tmp_path, *train, "--iterations", done + 20)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0
    assert [line["iteration"] for line in read_metrics(metrics)] == list(range(done + 20))
    lines = err.replace("\r", "\n").strip().splitlines()
    assert len(lines) <= 5 and "before" in lines[-1]  # a log file is not flooded by the progress bar


def test_ctrl_c_before_anything_has_begun(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # the interpreter tells each import
    process = start(tmp_path, "train", "--out", "run")
    while "gymnasium" not in process.stderr.readline():  # the first of many
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == -signal.SIGINT and "Traceback" not in err
    assert not (tmp_path / "run").exists()


def test_a_reader_that_has_seen_enough(tmp_path):
    process = start(tmp_path, "envs")
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait(timeout=100) == 0
