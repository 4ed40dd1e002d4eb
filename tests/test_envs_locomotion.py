"""Bodies in a physics engine, held against the engine itself, Gymnasium's own bodies, and closed forms."""

import copy
import hashlib
import os
import pickle
import subprocess
import sys
import threading
from functools import cache, partial
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import pytest

from mamlrl_core.envs import BACKENDS

mujoco = pytest.importorskip("mujoco")

from mamlrl_core.envs import locomotion  # noqa: E402
from mamlrl_core.envs.base import BROKEN  # noqa: E402
from mamlrl_core.envs.engine import silent_engine  # noqa: E402
from mamlrl_core.envs.locomotion import (  # noqa: E402
    AntDirEnv,
    AntEnv,
    AntGoalEnv,
    AntVelEnv,
    HalfCheetahDirEnv,
    HalfCheetahVelEnv,
)

every_family = pytest.mark.parametrize(
    "family", [HalfCheetahDirEnv, HalfCheetahVelEnv, AntDirEnv, AntVelEnv, AntGoalEnv]
)
both_bodies = pytest.mark.parametrize("family", [HalfCheetahDirEnv, AntDirEnv])
every_backend = pytest.mark.parametrize("backend", BACKENDS)


@pytest.fixture(autouse=True)
def nothing_is_written(tmp_path, monkeypatch, capfd):
    """Whatever a test does: the engine leaves no file in the working directory, and prints nothing."""
    monkeypatch.chdir(tmp_path)
    yield
    assert os.listdir() == [] and capfd.readouterr() == ("", "")


@cache
def gymnasium_body(family):
    """Gymnasium's own environment with the same body and observation."""
    name, options = "HalfCheetah-v5", {}
    if issubclass(family, AntEnv):
        name, options = "Ant-v5", {"include_cfrc_ext_in_observation": False}
    if family is AntGoalEnv:
        options["exclude_current_positions_from_observation"] = False
    with silent_engine():  # its model has an attribute that the engine calls deprecated
        return gymnasium.make(name, disable_env_checker=True, **options).unwrapped


def bare_engine(family, state, actions):
    """The states (time, qpos, qvel) after every action by plain ``mj_step``, and all warnings by substep."""
    model = gymnasium_body(family).model
    data = mujoco.MjData(model)
    data.time = state[0]
    data.qpos[:], data.qvel[:] = np.split(state[1:], [model.nq])
    states, warnings = [], []
    with silent_engine():
        for action in actions:
            data.qacc_warmstart[:] = 0.0
            data.ctrl[:] = np.clip(action, -1.0, 1.0)
            for _ in range(5):
                mujoco.mj_step(model, data)
                warnings.append(sum(warning.number for warning in data.warning))
            states.append(np.concatenate([[data.time], data.qpos, data.qvel]))
    return states, warnings


def random_actions(family, *shape):
    """Normal ones: many lie beyond the bounds."""
    shape = (*shape, gymnasium_body(family).model.nu)
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def make(family, slots, backend="batched", **options):
    workers = {"num_workers": 2, "context": "fork"} if backend == "subproc" else {}
    return BACKENDS[backend](partial(family, **options), slots, **workers)


def play(envs, actions, seed=3):
    """One episode: observations, rewards, terminated, truncated, each (T, S, ...), and the infos."""
    envs.reset(seed=seed)
    *arrays, infos = zip(*(envs.step(action) for action in actions), strict=True)
    return [np.stack(parts) for parts in arrays], infos


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


# ---------------------------------------------------------------------------------------------- physics


@every_family
def test_a_step_is_five_steps_of_the_bare_engine(family, monkeypatch):
    monkeypatch.setattr(AntEnv, "LOWEST", -np.inf)  # lying on its back it should be simulated as well
    monkeypatch.setattr(AntEnv, "HIGHEST", np.inf)
    actions = random_actions(family, 200, 2)
    batched, singles = make(family, 2), [family() for _ in range(2)]
    batched.reset(seed=4)
    for env, seed in zip(singles, batched._slot_seeds(4), strict=True):
        env.reset(seed=seed)
    expected = [bare_engine(family, start, actions[:, slot])[0] for slot, start in enumerate(batched._state)]
    for time, action in enumerate(actions):
        batched.step(action)
        for slot, env in enumerate(singles):
            env.step(action[slot])
            assert (batched._state[slot] == expected[slot][time]).all()
            assert (env._state == expected[slot][time]).all()


@every_family
@pytest.mark.parametrize("start", ["usual", "thrown up", "under ground"])
def test_the_body_is_that_of_gymnasium(family, start):
    """Start, motion, observation and end are the same for the same seed and actions."""
    ours, theirs = family(), gymnasium_body(family)
    observation, expected = ours.reset(seed=3)[0], theirs.reset(seed=3)[0]
    assert (observation == expected.astype(np.float32)).all()
    nq, height = theirs.model.nq, 2 if issubclass(family, AntEnv) else 1
    if start != "usual":
        ours._state[1 + height] = 0.9 if start == "thrown up" else -5.0
        ours._state[1 + nq + height] = 2.0
        theirs.set_state(*np.split(ours._state[1:], [nq]))
    for action in random_actions(family, 200):
        theirs.data.qacc_warmstart[:] = 0.0
        observation, _, terminated, *_ = ours.step(action)
        expected, _, theirs_terminated, *_ = theirs.step(action)
        assert (ours._state[1:] == np.concatenate([theirs.data.qpos, theirs.data.qvel])).all()
        assert observation.dtype == np.float32 and (observation == expected.astype(np.float32)).all()
        assert terminated == theirs_terminated
        if terminated:
            break
    assert terminated == issubclass(family, AntEnv)
    if terminated:
        assert theirs.data.qpos[2] < 0.2 if start == "under ground" else theirs.data.qpos[2] > 1.0


@pytest.mark.parametrize(("height", "dies"), [(0.2, False), (0.1999, True), (1.0, False), (1.0001, True)])
def test_the_bounds_of_an_ants_life(height, dies):
    state = AntDirEnv().initial_state({}, np.zeros(29))
    state[3] = height
    assert AntDirEnv().fallen(state) == dies


@every_family
def test_an_episode_starts_at_rest_but_for_noise(family):
    env, body, n = family(), gymnasium_body(family), 4000
    starts = np.stack([env.draw_start(np.random.default_rng(seed)) for seed in range(n)])
    states = env.initial_state(env.task, starts)
    rest = np.concatenate([[0.0], body.init_qpos, body.init_qvel])
    time, positions, velocities = np.split(states - rest, [1, 1 + body.model.nq], axis=1)
    assert (time == 0).all()
    assert 0.0999 < np.abs(positions).max() < 0.1000001
    assert np.abs(positions.mean(0)).max() < 4.5 * 0.1 / np.sqrt(3 * n)
    assert np.abs(positions.std(0) / 0.1 - np.sqrt(1 / 3)).max() < 4.5 * np.sqrt(1 / 15 / n)
    assert np.abs(velocities.mean(0)).max() < 4.5 * 0.1 / np.sqrt(n)
    assert np.abs(velocities.std(0) / 0.1 - 1.0).max() < 4.5 * np.sqrt(1 / 2 / n)


@pytest.mark.parametrize(("family", "size"), [(HalfCheetahDirEnv, 17), (AntDirEnv, 27), (AntGoalEnv, 29)])
def test_who_sees_where_it_is(family, size):
    env = family()
    state = env.initial_state(env.task, env.draw_start(np.random.default_rng(0)))
    elsewhere = state + np.eye(len(state))[1] * 7.0  # along x
    here, there = env.observe(state, env.task), env.observe(elsewhere, env.task)
    assert here.shape == (size,) == env.observation_space.shape and env.horizon == 200
    if family is AntGoalEnv:
        assert here[:2].tolist() == state[1:3].tolist() and (there - here).tolist() == [7.0] + [0.0] * 28
    else:
        assert (here == there).all()


# ---------------------------------------------------------------------------------------------- rewards

REWARDS = pytest.mark.parametrize(
    ("family", "task", "task_reward", "bonus", "weight"),
    [
        (HalfCheetahDirEnv, {"direction": 1}, lambda x, y, vx: vx, 0, 0.05),
        (HalfCheetahDirEnv, {"direction": -1}, lambda x, y, vx: -vx, 0, 0.05),
        (HalfCheetahVelEnv, {"velocity": 0.7}, lambda x, y, vx: -abs(vx - 0.7), 0, 0.05),
        (AntDirEnv, {"direction": 1}, lambda x, y, vx: vx, 0.05, 0.005),
        (AntDirEnv, {"direction": -1}, lambda x, y, vx: -vx, 0.05, 0.005),
        (AntVelEnv, {"velocity": 2.5}, lambda x, y, vx: -abs(vx - 2.5), 1.05, 0.005),
        (AntGoalEnv, {"goal": [2, -1]}, lambda x, y, vx: -abs(x - 2) - abs(y + 1), 4.05, 0.005),
    ],
)


@REWARDS
def test_the_reward_of_a_body_in_flight(family, task, task_reward, bonus, weight):
    """Nothing touches it and no joint is bent: it flies on at the velocity it has."""
    env = family()
    env.reset_task(task)
    env.reset(seed=0)
    state = env.initial_state(env.task, np.zeros(env.model.nq + env.model.nv))
    velocities = state[1 + env.model.nq :]
    velocities[0], x, y = 1.5, 1.5 * 0.05, 0.0
    if issubclass(family, AntEnv):
        state[3], state[8:16] = 0.95, [0, 1, 0, -1, 0, -1, 0, 1]  # knees within their range
        velocities[1], y = -0.5, -0.5 * 0.05
    else:
        state[2] = 5.0
    env._state = state
    _, reward, terminated, truncated, info = env.step(np.zeros(env.model.nu))
    assert reward == pytest.approx(task_reward(x, y, 1.5) + bonus, abs=1e-9)
    assert (terminated, truncated, info) == (False, False, {})


@REWARDS
@every_backend
def test_the_reward_of_any_step(family, task, task_reward, bonus, weight, backend):
    """Where the bare engine says that the body has come to; what an action costs, after clipping."""
    action = np.array([2.0, -1.5, 0.5, -0.25, 1.0, 0.125, 0.0, -30.0][: gymnasium_body(family).model.nu])
    paid = sum(min(abs(torque), 1.0) ** 2 for torque in action.tolist())
    with make(family, 2, backend) as envs:
        envs.reset_task([task])
        seeds = envs._slot_seeds(5)
        (rewards,) = play(envs, [np.tile(action, (2, 1))], seed=5)[0][1]
    for seed, reward in zip(seeds, rewards, strict=True):
        env = family()
        env.reset(seed=seed)
        ((time, x, y, *_),), _ = bare_engine(family, env._state, [action])
        velocity = (x - env._state[1]) / 0.05
        assert time == pytest.approx(0.05)
        assert reward == pytest.approx(task_reward(x, y, velocity) + bonus - weight * paid, abs=1e-9)


# ------------------------------------------------------------------------------------------------ tasks


@pytest.mark.parametrize(
    ("family", "key", "low", "high"),
    [(HalfCheetahVelEnv, "velocity", 0, 2), (AntVelEnv, "velocity", 0, 3), (AntGoalEnv, "goal", -3, 3)],
)
def test_velocities_and_goals_are_uniform(family, key, low, high):
    tasks = family().sample_tasks(20_000, np.random.default_rng(0))
    values = np.stack([task[key] for task in tasks]).reshape(20_000, -1)
    assert values.shape[1] == (2 if key == "goal" else 1)
    edges = [np.linspace(low, high, 5)] * values.shape[1]
    counts, _ = np.histogramdd(values, edges)
    assert counts.sum() == 20_000  # none lies outside
    assert np.abs(counts - 20_000 / counts.size).max() < 4.5 * np.sqrt(20_000 / counts.size)


@both_bodies
def test_directions_are_as_likely(family):
    tasks = family().sample_tasks(10_000, np.random.default_rng(0))
    directions = np.array([task["direction"] for task in tasks])
    assert set(directions) == {-1.0, 1.0} and abs(directions.mean()) < 4 / np.sqrt(10_000)


@pytest.mark.parametrize(
    ("family", "task", "message"),
    [
        (HalfCheetahDirEnv, {"direction": 0.5}, r"task\['direction'\] must be \+1 or -1, got 0\.5"),
        (AntDirEnv, {"direction": 0}, r"'direction'.* got 0"),
        (AntDirEnv, {"direction": -2.0}, r"'direction'.* got -2\.0"),
        (HalfCheetahDirEnv, {"direction": [1.0]}, r"'direction'.*shape \(\), got \(1,\)"),
        (HalfCheetahDirEnv, {"velocity": 1.0}, r"\['direction'\], got \['velocity'\]"),
        (HalfCheetahVelEnv, {"velocity": np.nan}, "'velocity'.*finite, got nan"),
        (AntVelEnv, {"velocity": [1.0, 2.0]}, r"'velocity'.*shape \(\), got \(2,\)"),
        (AntVelEnv, {"velocity": 1.0, "speed": 2.0}, "speed"),
        (AntGoalEnv, {"goal": 1.0}, r"'goal'.*shape \(2,\), got \(\)"),
        (AntGoalEnv, {"goal": [0.0, np.inf]}, "'goal'.*finite.*inf"),
    ],
)
def test_a_wrong_task_is_named_and_changes_nothing(family, task, message):
    env = family()
    before = env.task
    with pytest.raises(ValueError, match=message):
        env.reset_task(task)
    assert env.task is before
    with pytest.raises(ValueError, match=message):
        make(family, 2).reset_task([task])


# ---------------------------------------------------------------------------------------------- vectors


class FragileAntEnv(AntDirEnv):
    """Dies sooner or later, and usually soon."""

    LOWEST, HIGHEST = 0.55, 0.85


def test_ants_that_die_at_different_times_play_the_same_on_every_backend(monkeypatch):
    actions, episodes = random_actions(AntDirEnv, 25, 8), []
    for backend in BACKENDS:
        with make(FragileAntEnv, 8, backend, horizon=20) as envs:
            arrays, infos = play(envs, actions)
            episodes.append(arrays)
            assert not any(infos)
    observations, rewards, terminated, truncated = episodes[0]
    assert len(set(terminated.sum(0))) >= 4 and truncated[-1].any()  # at different times, and some never
    done = (terminated | truncated)[:-1]
    assert (observations[1:][done] == 0).all() and (rewards[1:][done] == 0).all()
    for episode in episodes[1:]:
        assert_same(episode, episodes[0])


def test_finished_slots_are_not_simulated(monkeypatch):
    envs, rows = make(FragileAntEnv, 8, horizon=20), []

    def simulate(state, action, simulate=envs.family.simulate):
        rows.append(len(state))
        return simulate(state, action)

    monkeypatch.setattr(envs.family, "simulate", simulate)
    (_, _, terminated, truncated), _ = play(envs, random_actions(AntDirEnv, 25, 8))
    running = 8 - (terminated | truncated).sum(1)
    assert rows == [8, *running[running > 0]] and min(rows) < 8


@both_bodies
def test_slots_do_not_depend_on_their_number(family):
    actions, seeds = random_actions(family, 20, 7), list(range(7))
    episodes = [play(make(family, slots), actions[:, :slots], seeds[:slots])[0] for slots in (7, 1, 2)]
    for episode in episodes[1:]:
        slots = episode[0].shape[1]
        assert_same(episode, [part[:, :slots] for part in episodes[0]])


def test_the_layout_of_the_actions_does_not_matter():
    actions = random_actions(AntDirEnv, 20, 7)
    columns = np.asfortranarray(actions.reshape(20, -1)).reshape(20, 7, 8)
    episodes = [
        play(make(AntDirEnv, 7, backend), layout)[0]
        for backend in ("serial", "batched")
        for layout in (list(actions), [np.asfortranarray(action) for action in actions], list(columns))
    ]
    for episode in episodes[1:]:
        assert_same(episode, episodes[0])


# ---------------------------------------------------------------------------------------------- threads


def digest():
    """A fingerprint of some episodes, and the number of threads that simulated them."""
    envs, fingerprint = make(AntGoalEnv, 7), hashlib.sha256()
    for part in play(envs, random_actions(AntGoalEnv, 30, 7))[0]:
        fingerprint.update(part.tobytes())
    return fingerprint.hexdigest(), len(envs.family._scratch)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot pin a process to a core")
def test_one_core_plays_what_many_play(monkeypatch):
    monkeypatch.setattr(locomotion, "available_cpus", lambda: 5)
    many, threads = digest()
    assert threads == 5
    core = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{core}}}); import test_envs_locomotion as me; "
    code += "print(*me.digest())"
    tests = Path(__file__).parent
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)])}
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=100)
    assert out.stdout.split() == [many, "1"] and out.stderr == ""


def test_two_environments_in_two_threads():
    """They play what each plays alone; and though they blow up all the time, the engine keeps quiet."""
    actions = random_actions(HalfCheetahDirEnv, 40, 4)
    actions[5, 0] = 1e12
    alone = [play(make(explosive(HalfCheetahDirEnv), 4), actions, seed)[0] for seed in (1, 2)]
    together, start = {}, threading.Barrier(2)

    def work(seed):
        envs = make(explosive(HalfCheetahDirEnv), 4)
        start.wait()
        together[seed] = [play(envs, actions, seed)[0] for _ in range(5)]

    before, interval = mujoco.MjLogConfig.get().logto_file, sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    for seed, expected in zip((1, 2), alone, strict=True):
        for episode in together[seed]:
            assert_same(episode, expected)
    assert mujoco.MjLogConfig.get().logto_file == before is True


def threads():
    """The numbers of this process's threads."""
    return {thread.id for thread in psutil.Process().threads()}


def test_close_ends_the_threads_of_the_engine():
    make(AntDirEnv, 4).close()  # which has none yet
    for end in (lambda envs: (envs.close(), envs.close()), lambda envs: None):  # closed, or only forgotten
        envs, before = make(AntDirEnv, 4), threads()
        play(envs, random_actions(AntDirEnv, 1, 4))
        started = threads() - before
        assert len(started) == locomotion.available_cpus()
        end(envs)
        del envs
        assert not started & threads()


def test_a_single_environment_has_no_threads_and_may_be_closed_twice():
    env, before = AntDirEnv(), threads()
    env.close()
    env.reset(seed=0)
    env.step(np.zeros(8))
    assert not threads() - before
    env.close()
    env.close()


@pytest.mark.parametrize("backend", ["serial", "batched"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda envs: pickle.loads(pickle.dumps(envs))])
def test_a_copy_made_midway_goes_on_alike_with_an_engine_of_its_own(backend, copied):
    actions = random_actions(AntDirEnv, 20, 4)
    envs = make(AntDirEnv, 4, backend)
    play(envs, actions[:10])
    other = copied(envs)
    expected = [envs.step(action)[:4] for action in actions[10:]]
    envs.close()
    for action, results in zip(actions[10:], expected, strict=True):
        assert_same(other.step(action)[:4], results)
    other.close()


def test_workers_may_be_forked_beside_the_threads_of_the_engine():
    actions = random_actions(AntDirEnv, 5, 4)
    batched = make(AntDirEnv, 4)
    expected, _ = play(batched, actions)
    with make(AntDirEnv, 4, "subproc") as forked:
        assert_same(play(forked, actions)[0], expected)
        assert_same(play(batched, actions)[0], expected)  # whose threads work on


FORK = """
import os, signal, sys, time
import numpy as np
from mamlrl_core.envs.locomotion import AntDirEnv
from mamlrl_core.envs import BatchedVecEnv

def steps():
    return [envs.step(np.full((4, 8), 0.5))[0].tobytes() for _ in range(3)]

envs = BatchedVecEnv(AntDirEnv, 4)
envs.reset(seed=0)
expected = steps()
envs.reset(seed=0)
child = os.fork()
if child == 0:
    assert "step" not in sys.argv or steps() == expected
    if "close" in sys.argv:
        envs.close()
    sys.exit(7)  # which destroys what is left
deadline = time.monotonic() + 30
while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
    time.sleep(0.02)
if ended == (0, 0):
    os.kill(child, signal.SIGKILL)
    sys.exit("the child hangs")
assert os.waitstatus_to_exitcode(ended[1]) == 7
assert steps() == expected  # the parent's engine works on
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked on Unix only")
@pytest.mark.parametrize("deeds", [[], ["step"], ["close"], ["step", "close"]])
def test_a_forked_process_has_an_engine_of_its_own_and_ends(deeds):
    root = Path(__file__).parents[1]
    command = [sys.executable, "-W", "ignore", "-c", FORK, *deeds]
    environ = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---------------------------------------------------------------------------------------------- blow-up


def explosive(family):
    """The family with a fault: a first torque above 100 becomes the velocity of every joint."""

    class Explosive(family):
        def transition(self, state, action, noise, task):
            blow = action[..., :1]
            velocities = np.arange(state.shape[-1]) > self.model.nq
            return super().transition(np.where(velocities & (blow > 100), blow, state), action, noise, task)

    return Explosive


def blows(family, state):
    """Substep -> a velocity with which the bare engine warns in that substep, and in none before."""
    found = {}
    for blow in np.logspace(2, 12, 31, dtype=np.float32).tolist():
        blown = np.where(np.arange(len(state)) > gymnasium_body(family).model.nq, blow, state)
        _, warnings = bare_engine(family, blown, random_actions(family, 1))
        if any(warnings):
            found[next(substep for substep, number in enumerate(warnings) if number)] = blow
    return found


@both_bodies
@every_backend
@pytest.mark.parametrize("when", [0, 4])
def test_a_simulation_that_blows_up_ends_its_episode_and_nothing_else(family, backend, when):
    victim, others = 2, [0, 1, 3]
    actions = random_actions(family, 10, 4)
    with make(explosive(family), 4, backend, horizon=9) as envs:
        (healthy, *_), infos = expected = play(envs, actions)
        assert not any(infos)
        disturbed = actions.copy()
        disturbed[when, victim, 0] = 1e12
        arrays, infos = play(envs, disturbed)
        observations, rewards, terminated, truncated = arrays

        assert_same([part[:, others] for part in arrays], [part[:, others] for part in expected[0]])
        assert (observations[:when, victim] == healthy[:when, victim]).all()
        assert terminated[:, victim].tolist() == [time >= when for time in range(10)]
        assert not truncated[:, victim].any() and np.isfinite(observations).all()
        assert (rewards[when:, victim] == 0).all() and (observations[when + 1 :, victim] == 0).all()
        assert infos[when]["warning"].tolist() == [None, None, BROKEN, None]
        assert infos[when]["_warning"].tolist() == [False, False, True, False]
        assert [time for time, info in enumerate(infos) if info] == [when]

        assert_same(play(envs, actions)[0], expected[0])  # after a reset, it is as if nothing had happened


@both_bodies
@pytest.mark.parametrize("when", [0, 3])
def test_a_blow_up_within_a_step_is_noticed(family, when):
    """The engine resets itself and goes on; only its clock and a counter tell."""
    env = explosive(family)()

    def start():
        env.reset(seed=0)
        for _ in range(when):
            env.step(np.zeros(env.model.nu))
        return env._state

    found = blows(family, start())
    assert min(found) == 0 and max(found) > 1
    for blow in found.values():
        start()
        action = random_actions(family, 1)[0]
        action[0] = blow
        observation, *rest = env.step(action)
        assert rest == [0.0, True, False, {"warning": BROKEN}]
        assert (observation[-env.model.nv :] == blow).all()  # of the state it had
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(action)
