"""Films of bodies: they show the very episodes that an evaluation measures, where the ruler says they are."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled
from PIL import Image

from mamlrl_core import camera as cameras
from mamlrl_core import rendering
from mamlrl_core.__main__ import main
from mamlrl_core.camera import Camera, choose_driver
from mamlrl_core.config import Config
from mamlrl_core.evaluation import adapt_and_play, evaluate
from mamlrl_core.rendering import BOTH_WAYS, perform, render, require_format
from mamlrl_core.seeding import Purpose, derive_seed
from mamlrl_core.training import Run, load_policy, make_policy, make_sampler

ROOT = Path(__file__).parents[1]
HORIZON = 40  # the same bodies in shorter episodes
for name in ("HalfCheetahVel", "HalfCheetahDir", "AntGoal"):
    entry = f"mamlrl_core.envs.locomotion:{name}Env"
    gymnasium.register(f"short/{name}-v0", entry_point=entry, kwargs={"horizon": HORIZON})
CHEETAH = Config(env="short/HalfCheetahVel-v0", hidden_sizes=(8,))
RUNNER = replace(CHEETAH, env="short/HalfCheetahDir-v0")
ANT = replace(CHEETAH, env="short/AntGoal-v0")


def untrained(config):
    with make_sampler(config, num_tasks=1, episodes_per_task=1) as sampler:
        return make_policy(config, sampler)


# ------------------------------------------------------------------------------------ what is shown


@pytest.mark.parametrize("config", [CHEETAH, ANT, replace(ANT, backend="serial")])
def test_the_episodes_are_those_that_were_played(config):
    policy = untrained(config)
    rows = perform(config, policy, steps=2, num_tasks=2, episodes_per_task=3, seed=5)
    root = derive_seed(5, Purpose.EVALUATION)
    with make_sampler(config, num_tasks=2, episodes_per_task=3, seed=root) as sampler:
        tasks = sampler.sample_tasks(0)
        sampler.reset_task(tasks)
        played = list(adapt_and_play(config, policy, sampler, [0.1, 0.05]))
    assert [[shot.k for shot in row] for row in rows] == [[0, 0], [2, 2]]
    for row, episodes in zip(rows, (played[0], played[2]), strict=True):
        for i, shot in enumerate(row):
            assert str(shot.task) == str(tasks[i])
            length = int(episodes.mask[i, :, 0].sum())
            assert len(shot.rewards) == len(shot.states) - 1 == length
            assert shot.ended == (length < HORIZON)
            np.testing.assert_array_equal(shot.rewards.astype(np.float32), episodes.rewards[i, :length, 0])
    assert any(shot.ended for row in rows for shot in row) == ("Ant" in config.env)  # some ants fell


def test_the_returns_are_those_of_the_evaluation():
    policy = untrained(CHEETAH)
    rows = perform(CHEETAH, policy, num_tasks=3, episodes_per_task=1, seed=2)
    measured = evaluate(CHEETAH, policy, num_tasks=3, episodes_per_task=1, steps=1, seed=2).returns
    np.testing.assert_allclose([[shot.rewards.sum() for shot in row] for row in rows], measured, rtol=1e-5)


def test_of_directions_both_are_shown_unless_tasks_are_asked_for():
    policy = untrained(RUNNER)

    def directions(**arguments):
        before, _ = perform(RUNNER, policy, episodes_per_task=1, **arguments)
        return [float(shot.task["direction"]) for shot in before]

    assert directions() == [-1.0, 1.0]
    root = derive_seed(4, Purpose.EVALUATION)
    with make_sampler(RUNNER, num_tasks=3, seed=root) as sampler:
        drawn = [float(task["direction"]) for task in sampler.sample_tasks(0)]
    assert directions(num_tasks=3, seed=4) == drawn
    # Going the other way earns the opposite for the same movements.
    there, back = perform(RUNNER, policy, episodes_per_task=1)[0]
    assert there.task == BOTH_WAYS[0] and back.task == BOTH_WAYS[1]
    moved = np.diff(there.states[:, 1]) / 0.05
    costs = there.rewards + moved
    assert (costs <= 0).all() and (costs >= -0.05 * 6).all()


@pytest.mark.parametrize(
    ("config", "arguments", "match"),
    [
        (Config(), {}, "render needs a body, .* mamlrl/Navigation2D-v0 has none"),
        (CHEETAH, {"steps": 0}, "steps must be at least 1, got 0"),
        (CHEETAH, {"num_tasks": 0}, "num_tasks must be at least 1, got 0"),
        (CHEETAH, {"episodes_per_task": 0}, "0 episodes per task"),
        (CHEETAH, {"seed": -1}, "got seed=-1"),
        (CHEETAH, {"every": 0}, "every must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_filmed(config, arguments, match, monkeypatch):
    monkeypatch.setattr(rendering, "Camera", lambda *_: None)  # also where nothing can draw
    with pytest.raises(ValueError, match=match):
        render(config, untrained(config), **arguments)


@pytest.mark.parametrize("num_tasks", [None, 2, 3])
@pytest.mark.parametrize("width", [-1, 0, 120, 100_000])
def test_a_width_that_cannot_be_is_refused_before_anything_is_played(num_tasks, width, monkeypatch):
    monkeypatch.setattr(rendering, "perform", None)
    told = f"at least 100 for each of the {num_tasks or 2} tasks, and at most 4096 in all, got {width}"
    with pytest.raises(ValueError, match=told):
        render(CHEETAH, untrained(CHEETAH), num_tasks=num_tasks, width=width)


def test_a_picture_too_large_for_the_driver(driver):
    with pytest.raises(ValueError, match="OpenGL draws no picture of 1000000 x 460000 pixels here: "):
        Camera(gymnasium.make("mamlrl/HalfCheetahVel-v0").unwrapped, 1_000_000)


# ----------------------------------------------------------------------------------------- pictures


@pytest.fixture(scope="module")
def driver():
    """Tests that draw ask for this."""
    try:
        choose_driver()
    except DependencyNotInstalled as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture
def stage(request, driver):
    """A camera on a family, and the body at its start, without noise."""
    family = gymnasium.make(request.param).unwrapped
    camera = Camera(family, 320)
    state = family.initial_state(family.task, np.zeros(family.model.nq + family.model.nv))
    yield camera, state
    camera.close()


def shoot(camera, state, x=0.0, task=(), colour=(0.0, 0.0, 1.0)):
    state = state.copy()
    state[1] = x
    return camera.shoot(state, dict(task), colour).astype(int)


@pytest.mark.parametrize("stage", ["mamlrl/HalfCheetahVel-v0", "mamlrl/AntVel-v0"], indirect=True)
def test_squares_of_one_metre_where_the_ruler_says(stage):
    camera, state = stage
    for x in (0.0, 0.3, -7.6, 31.2):
        picture = shoot(camera, state, x)
        floor = picture[-10].sum(-1)  # in front of the body and its shadow
        lighter = floor > (floor.min() + floor.max()) / 2
        edges = np.flatnonzero(np.diff(lighter)) + 1
        whole = np.arange(np.ceil(camera.leftmost + 0.1), camera.rightmost - 0.1)
        np.testing.assert_allclose(edges, (whole - camera.leftmost) * camera.pixels_per_metre, atol=2.5)
        assert (camera.leftmost + camera.rightmost) / 2 == pytest.approx(x)


@pytest.mark.parametrize("stage", ["mamlrl/HalfCheetahVel-v0", "mamlrl/AntVel-v0"], indirect=True)
def test_the_body_is_in_the_middle_and_has_its_colour(stage):
    camera, state = stage
    for x in (0.0, 12.5):
        red, green, blue = np.moveaxis(shoot(camera, state, x), -1, 0)
        _, columns = np.nonzero((blue > 80) & (red < 60) & (green < 60))
        assert len(columns) > 500
        assert columns.mean() == pytest.approx(160, abs=8)


@pytest.mark.parametrize("stage", ["mamlrl/AntGoal-v0"], indirect=True)
def test_the_goal_is_where_it_is_and_the_camera_stays(stage):
    camera, state = stage
    for goal in ((2.0, 2.5), (-3.0, -3.0)):
        red, green, blue = np.moveaxis(shoot(camera, state, 0.5, {"goal": np.array(goal)}), -1, 0)
        rows, columns = np.nonzero((red > 120) & (blue < 40) & (green < 120))
        across = (goal[0] - camera.leftmost) * camera.pixels_per_metre
        # Seen from 35 degrees above, y goes up in the picture by its sine, height by its cosine.
        up = goal[1] * np.sin(np.radians(35)) + (0.01 - 0.3) * np.cos(np.radians(35))
        assert columns.mean() == pytest.approx(across, abs=1.5)
        assert rows.mean() == pytest.approx(camera.height / 2 - up * camera.pixels_per_metre, abs=1.5)
        assert camera.leftmost == -4.0


def test_the_model_that_simulates_is_left_alone(driver):
    family = gymnasium.make("mamlrl/AntVel-v0").unwrapped
    before = family.model.geom_rgba.copy(), family.model.tex_data.copy()
    Camera(family, 200).close()
    np.testing.assert_array_equal(family.model.geom_rgba, before[0])
    np.testing.assert_array_equal(family.model.tex_data, before[1])


# ------------------------------------------------------------------------------------------- driver


@pytest.fixture
def trials(monkeypatch):
    """Which drivers work is up to the test; the result is a list of those that were tried."""
    tried, working = [], set()

    def run(command, env, capture_output):
        tried.append(env["MUJOCO_GL"])
        return subprocess.CompletedProcess(command, 0 if env["MUJOCO_GL"] in working else 1)

    cameras.works.cache_clear()
    monkeypatch.setattr(cameras.subprocess, "run", run)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("MUJOCO_GL", "")  # to be put back after the test
    yield tried, working
    cameras.works.cache_clear()


def test_the_first_driver_that_works_is_chosen(trials):
    tried, working = trials
    working |= {"osmesa", "glfw"}
    for _ in range(2):  # no driver is tried twice
        choose_driver()
    assert tried == ["egl", "osmesa"] and os.environ["MUJOCO_GL"] == "osmesa"


def test_the_users_driver_or_none(trials, monkeypatch):
    tried, working = trials
    working |= {"egl"}
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with pytest.raises(DependencyNotInstalled, match="MUJOCO_GL=osmesa does not work here: apt-get"):
        choose_driver()
    assert tried == ["osmesa"]


def test_without_any_driver_the_packages_are_named(trials):
    tried, _ = trials
    with pytest.raises(DependencyNotInstalled, match="neither EGL nor OSMesa works here: apt-get"):
        choose_driver()
    assert tried == ["egl", "osmesa", "glfw"] and not os.environ["MUJOCO_GL"]


def test_the_packages_are_those_that_the_test_script_and_binder_install():
    assert cameras.PACKAGES.split() == (ROOT / "apt.txt").read_text().split()


def test_it_does_not_matter_that_mujoco_was_imported_before(driver):
    code = (
        "import os; os.environ.pop('MUJOCO_GL', None); import mujoco, gymnasium, numpy, mamlrl_core.envs\n"
        "from mamlrl_core.camera import Camera\n"
        "family = gymnasium.make('mamlrl/HalfCheetahVel-v0').unwrapped\n"
        "state = family.initial_state(family.task, numpy.zeros(18))\n"
        "assert Camera(family, 100).shoot(state, family.task, (0, 0, 0)).std() > 5"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


# -------------------------------------------------------------------------------------------- films


@pytest.fixture(scope="module")
def film(driver):
    return render(CHEETAH, untrained(CHEETAH), width=301, every=6, episodes_per_task=1)


def test_a_film_shows_every_so_many_steps_and_the_last(film):
    assert film.seconds == pytest.approx(6 * 0.05)
    assert len(film.frames) == len([0, 6, 12, 18, 24, 30, 36, HORIZON])
    assert {frame.shape for frame in film.frames} == {film.frames[0].shape}
    assert film.frames[0].shape[1] == 300  # two columns of one width
    assert all((a != b).any() for a, b in zip(film.frames, film.frames[1:], strict=False))


def test_a_gif_and_its_still(film, tmp_path):
    path = tmp_path / "new" / "folder" / "film.gif"
    still = film.save(path)
    assert sorted(path.parent.iterdir()) == [path, still]
    with Image.open(still) as image:
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), film.frames[-1])
    with Image.open(path) as gif:
        assert gif.n_frames == len(film.frames) and gif.info["loop"] == 0
        for i, frame in enumerate(film.frames):
            gif.seek(i)
            assert gif.info["duration"] == (300 if i < len(film.frames) - 1 else 2000)
            seen = np.asarray(gif.convert("RGB")).astype(int)
            assert np.abs(seen - frame).mean() < 4  # of 255, by the small palette
    assert path.stat().st_size < len(film.frames) * 10_000


def test_an_mp4(film, tmp_path):
    from imageio.v3 import immeta, imread

    film.save(tmp_path / "film.MP4")
    seen = imread(tmp_path / "film.MP4", extension=".mp4", plugin="FFMPEG").astype(int)
    height, width, _ = film.frames[0].shape
    assert seen.shape == (len(film.frames), height // 2 * 2, width // 2 * 2, 3)
    fps = immeta(tmp_path / "film.MP4", extension=".mp4", plugin="FFMPEG")["fps"]
    assert fps == pytest.approx(1 / film.seconds, abs=0.01)
    for shown, frame in zip(seen, film.frames, strict=True):
        assert np.abs(shown - frame[: shown.shape[0], : shown.shape[1]]).mean() < 6


def test_formats(monkeypatch, tmp_path):
    require_format(tmp_path / "a.gif")
    require_format(tmp_path / "a.mp4")
    for name in ("a.avi", "a", ".gif"):
        with pytest.raises(ValueError, match=r"a film ends in .gif or .mp4, got .*"):
            require_format(tmp_path / name)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)  # as if it were not installed
    with pytest.raises(DependencyNotInstalled, match="pip install 'imageio"):
        require_format(tmp_path / "a.mp4")


# ------------------------------------------------------------------------------------- command line


@pytest.fixture
def call(tmp_path, monkeypatch, capfd):
    """Run ``render`` in an empty directory: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["mamlrl_core", "render", *map(str, arguments)])
        try:
            main()
            return 0, *capfd.readouterr()
        except SystemExit as exit:
            return exit.code, *capfd.readouterr()

    return run


def stored(config, directory):
    Run(replace(config, iterations=0), directory).train(progress=False)
    return directory


def test_the_command(call, tmp_path, driver):
    run = stored(RUNNER, tmp_path / "run")
    quick = [run, "--episodes-per-task", 1, "--every", 20, "--width", 200]
    code, out, err = call(*quick, "--out", "new/clip.gif")
    assert code == 0 and err == ""
    back, forth, film, still = out.splitlines()
    rows = perform(*load_policy(run), episodes_per_task=1)
    before, after = ([shot.rewards.sum() for shot in row] for row in rows)
    assert back == f"direction −1 ←: return {before[0]:.1f} before, {after[0]:.1f} after"
    assert forth == f"direction 1 →: return {before[1]:.1f} before, {after[1]:.1f} after"
    assert (film, still) == ("new/clip.gif", "new/clip.png")
    first = Path(film).read_bytes(), Path(still).read_bytes()
    assert call(*quick)[0] == 0
    assert first == ((run / "render.gif").read_bytes(), (run / "render.png").read_bytes())


def test_mistakes_are_told_in_a_line_before_anything_is_written(call, tmp_path, monkeypatch):
    monkeypatch.setattr(rendering, "Camera", None)
    walk = stored(Config(hidden_sizes=(4,)), tmp_path / "walk")
    runner = stored(RUNNER, tmp_path / "runner")
    before = sorted(tmp_path.rglob("*"))
    for arguments, said in (
        (["nowhere"], "error: nowhere/checkpoint.pt: No such file or directory"),
        (["nowhere", "--out", "a.avi"], "error: a film ends in .gif or .mp4, got a.avi"),
        ([walk, "--out", "new/a.gif"], "error: render needs a body, as the locomotion families have; "),
        ([walk, "--every", 0], "error: every must be at least 1, got 0"),
        ([runner, "--width", 100_000], "error: width must be at least 100 for each of the 2 tasks, and "),
    ):
        code, out, _ = call(*arguments)
        assert str(code).startswith(said) and "\n" not in str(code) and out == ""
    assert sorted(tmp_path.rglob("*")) == before


def test_a_machine_that_cannot_draw_says_so_before_anything_is_played(call, tmp_path, trials, monkeypatch):
    run = stored(CHEETAH, tmp_path / "run")
    monkeypatch.setattr(rendering, "perform", None)
    code, _, _ = call(run, "--episodes-per-task", 1)
    assert code.startswith("error: a picture needs OpenGL, and neither EGL nor OSMesa works here: apt-get ")
    assert not (run / "render.gif").exists()


def test_a_driver_that_mujoco_does_not_know_is_named_in_a_line(tmp_path):
    run = stored(replace(CHEETAH, env="mamlrl/HalfCheetahVel-v0"), tmp_path / "run")
    environ = {**os.environ, "MUJOCO_GL": "nonsense", "PYTHONPATH": str(ROOT)}

    def call(*arguments):
        command = [sys.executable, "-m", "mamlrl_core", *map(str, arguments)]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=100)

    refused = call("render", run)
    assert refused.returncode == 1 and refused.stdout == ""
    assert refused.stderr.startswith("error: MuJoCo does not start with MUJOCO_GL=nonsense: ")
    assert len(refused.stderr.splitlines()) == 1
    listed = call("envs")
    assert listed.returncode == 0 and "MUJOCO_GL=nonsense" in listed.stdout and listed.stderr == ""
    assert "goal (2,)" in listed.stdout  # the families that need no engine are described as ever
