"""The same seed plays the same episodes to the bit, whichever backend plays them and however many workers."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from envs_for_tests import RandomWalkEnv

from mamlrl_core.envs import BACKENDS, FAMILIES, SubprocVecEnv, make_vec_env
from mamlrl_core.envs.bandit import GaussianBanditEnv
from mamlrl_core.envs.navigation import Navigation2DEnv

SLOTS = 12
# One family per class, and one that is not a DynamicsEnv: enough for the many ways to run workers.
REPRESENTATIVES = {
    "mamlrl/BernoulliBandit5-v0": "mamlrl/BernoulliBandit5-v0",
    "mamlrl/GaussianBandit10-v0": "mamlrl/GaussianBandit10-v0",
    "mamlrl/TabularMDP-v0": "mamlrl/TabularMDP-v0",
    "mamlrl/Navigation2D-v0": partial(Navigation2DEnv, horizon=9),
    "mamlrl/Navigation2DSparse-v0": "mamlrl/Navigation2DSparse-v0",
    "mamlrl/HalfCheetahVel-v0": partial(gymnasium.make, "mamlrl/HalfCheetahVel-v0", horizon=9),
    "own step": RandomWalkEnv,
}


def play(envs, steps=10):
    """Two episodes of random actions, the second one with ``seed=None``: everything that was returned."""
    actions = np.random.default_rng(2)
    tasks = envs.sample_tasks(4, np.random.default_rng(1))
    if "goal" in tasks[0]:  # make some slots arrive, at different times
        tasks[0], tasks[1] = {"goal": np.array([0.1, 0.0])}, {"goal": np.array([0.2, 0.0])}
    envs.reset_task(tasks)
    returned = []
    for seed in (7, None):
        observations, infos = envs.reset(seed=seed)
        returned += [observations, infos]
        for time in range(steps):
            if isinstance(envs.single_action_space, gymnasium.spaces.Discrete):
                action = actions.integers(envs.single_action_space.n, size=envs.num_envs)
            else:
                action = actions.normal(size=envs.action_space.shape)
                action[:6] = np.where(time < 2, np.eye(action.shape[-1])[0], action[:6])  # towards the goals
            *arrays, infos = envs.step(action)
            returned += [*arrays, infos]
    return returned


def assert_same(first, second):
    if isinstance(first, dict):
        assert list(first) == list(second)
        first, second = list(first.values()), list(second.values())
    if isinstance(first, list):
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    else:
        assert first.dtype == second.dtype and first.shape == second.shape
        assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_batched_plays_what_serial_plays(family):
    serial, batched = make_vec_env(family, SLOTS, "serial"), make_vec_env(family, SLOTS, "batched")
    assert_same(play(serial), play(batched))


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("family", REPRESENTATIVES)
def test_workers_play_what_serial_plays(family, context, workers):
    env = REPRESENTATIVES[family]
    with (
        SubprocVecEnv(env, SLOTS, workers, context)
        if callable(env)
        else make_vec_env(env, SLOTS, "subproc", num_workers=workers, context=context) as envs
    ):
        assert_same(play(make_vec_env(env, SLOTS, "serial")), play(envs))


def test_single_environments_play_what_slots_play():
    envs = make_vec_env("mamlrl/TabularMDP-v0", 3, "batched")
    tasks = envs.sample_tasks(3, np.random.default_rng(0))
    envs.reset_task(tasks)
    observations, _ = envs.reset(seed=[5, 6, 7])
    singles = [gymnasium.make("mamlrl/TabularMDP-v0") for _ in tasks]
    for slot, env in enumerate(singles):
        assert (env.reset(seed=5 + slot, options={"task": tasks[slot]})[0] == observations[slot]).all()
    for time in range(10):
        action = (np.arange(3) + time) % 5
        rows = envs.step(action)[:4]
        for slot, env in enumerate(singles):
            for one, row in zip(env.step(action[slot]), rows, strict=False):
                assert (one == row[slot]).all()


def test_the_digits_of_an_action_beyond_its_type_do_not_matter():
    action = np.random.default_rng(0).normal(size=(2, 2))
    rewards = []
    for backend in ("batched", "serial"):
        for dtype in (np.float64, np.float32):
            envs = make_vec_env("mamlrl/Navigation2D-v0", 2, backend)
            envs.reset(seed=0)
            rewards.append(envs.step(action.astype(dtype))[1])
    assert all((other == rewards[0]).all() for other in rewards)


@pytest.mark.parametrize("backend", BACKENDS)
def test_neighbouring_seeds_share_no_stream(backend):
    with make_vec_env(lambda: GaussianBanditEnv(num_arms=2), SLOTS, backend) as envs:
        rewards = []
        for seed in range(12):
            envs.reset(seed=seed)
            rewards.append(np.stack([envs.step(np.zeros(SLOTS, int))[1] for _ in range(10)]))
    assert np.unique(np.stack(rewards)).size == 12 * 10 * SLOTS


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_a_seed_the_streams_go_on(backend):
    with make_vec_env(lambda: GaussianBanditEnv(num_arms=2), 2, backend) as envs:
        envs.reset_task([{"means": [0.0, 0.0]}])
        noise = []
        for seed in (3, None):
            envs.reset(seed=seed)
            noise.append(np.stack([envs.step([0, 0])[1] for _ in range(10)]))
        generators = [np.random.default_rng(s) for s in envs._slot_seeds(3)]
        expected = np.stack([g.standard_normal(20) for g in generators], axis=-1)
        assert (np.concatenate(noise) == expected).all()

        envs.reset(seed=[8, None])  # slot 0 starts anew, slot 1 goes on
        mixed = np.stack([envs.step([0, 0])[1] for _ in range(10)])
        assert (mixed[:, 0] == np.random.default_rng(8).standard_normal(10)).all()
        assert (mixed[:, 1] == generators[1].standard_normal(10)).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_unseeded_environments_differ(backend):
    with make_vec_env(lambda: GaussianBanditEnv(num_arms=2), 3, backend) as envs:
        envs.reset()
        assert np.unique(envs.step([0, 0, 0])[1]).size == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_finished_slot_is_frozen_and_its_last_observation_returned(backend):
    with make_vec_env(lambda: Navigation2DEnv(horizon=4), 4, backend) as envs:
        goals = [[0.1, 0.0], [0.2, 0.0], [0.4, 0.0], [0.9, 0.0]]  # reached after 1, 2, 4 steps, and never
        envs.reset_task([{"goal": goal} for goal in goals])
        for _ in range(2):
            envs.reset(seed=0)
            arrived_at = np.array([1, 2, 4, 99])
            for time in range(1, 7):
                observations, rewards, terminated, truncated, infos = envs.step(np.tile([1.0, 0.0], (4, 1)))
                frozen = (time > arrived_at) | (time > 4)
                assert observations[:, 0] == pytest.approx(np.where(frozen, 0.0, 0.1 * time))
                assert rewards == pytest.approx(np.where(frozen, 0.0, 0.1 * time - np.array(goals)[:, 0]))
                assert (observations[frozen] == 0).all() and (rewards[frozen] == 0).all()
                assert terminated.tolist() == (time >= arrived_at).tolist()
                assert truncated.tolist() == [False, False, time >= 4, time >= 4]
                assert infos == {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_are_not_overwritten_by_the_next_step(backend):
    with make_vec_env("mamlrl/Navigation2D-v0", 2, backend) as envs:
        envs.reset_task([{"goal": [0.1, 0.0]}])
        first = [envs.reset(seed=0)[0], *envs.step(np.ones((2, 2)))[:4]]
        kept = [part.copy() for part in first]
        for _ in range(3):
            envs.step(np.tile([0.0, -1.0], (2, 1)))
        envs.reset(seed=1)
        assert_same(first, kept)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tasks_go_to_consecutive_slots_and_do_not_reset(backend):
    with make_vec_env("mamlrl/Navigation2D-v0", 6, backend) as envs:
        envs.reset(seed=0)
        envs.step(np.tile([1.0, 0.0], (6, 1)))
        envs.reset_task([{"goal": [3.0, 0.0]}, {"goal": [-4.0, 0.0]}, {"goal": [0.0, 5.0]}])
        observations, rewards, *_ = envs.step(np.zeros((6, 2)))
        assert observations[:, 0] == pytest.approx(np.full(6, 0.1))  # where they were before
        assert rewards == pytest.approx(-np.repeat([2.9, 4.1, np.hypot(0.1, 5.0)], 2))
        for tasks in ([{"goal": [0.0, 0.0]}] * 4, []):
            with pytest.raises(ValueError, match=f"6 slots, got {len(tasks)}"):
                envs.reset_task(tasks)
        with pytest.raises(ValueError, match="finite"):
            envs.reset_task([{"goal": [0.0, 0.0]}, {"goal": [0.0, np.nan]}])
        assert (
            envs.step(np.zeros((6, 2)))[1] == rewards
        ).all()  # the good task among them was not set either


@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_calls_are_named_and_harmless(backend):
    with make_vec_env("mamlrl/GaussianBandit5-v0", 3, backend) as envs:
        with pytest.raises(gymnasium.error.ResetNeeded):
            envs.step([0, 0, 0])
        with pytest.raises(ValueError, match="task"):
            envs.reset(options={"task": {}})
        with pytest.raises(ValueError, match=r"per slot \(3\), got 2"):
            envs.reset(seed=[1, 2])
        with pytest.raises(ValueError, match="-5"):
            envs.reset(seed=-5)
        envs.reset(seed=0)
        for actions, message in (
            ([0, 0], r"\(3,\), got \(2,\)"),
            ([0, 0, 5], "0..4"),
            ([0.0] * 3, "float64"),
        ):
            with pytest.raises(ValueError, match=message):
                envs.step(actions)
        assert envs.step([0, 0, 0])[1].shape == (3,)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        make_vec_env("mamlrl/GaussianBandit5-v0", 0, backend)
    with pytest.raises(TypeError, match="CartPole"):
        make_vec_env("CartPole-v1", 2, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_close_twice_and_use_after_close(backend):
    envs = make_vec_env("mamlrl/GaussianBandit5-v0", 2, backend)
    envs.reset(seed=0)
    envs.close()
    envs.close()
    task = envs.sample_tasks(1, np.random.default_rng(0))
    for call in (envs.reset, lambda: envs.step([0, 0]), lambda: envs.reset_task(task)):
        with pytest.raises(gymnasium.error.ClosedEnvironmentError, match=type(envs).__name__):
            call()


def test_an_unknown_backend_is_named():
    with pytest.raises(ValueError, match=r"batched.*serial.*subproc.*'parallel'"):
        make_vec_env("mamlrl/Navigation2D-v0", 2, "parallel")
    with pytest.raises(gymnasium.error.Error, match="Nowhere"):
        make_vec_env("mamlrl/Nowhere-v0", 2)


@pytest.mark.parametrize("backend", ["batched", "serial"])
def test_seeds_of_slots_are_checked_before_any_slot_moves(backend):
    envs = make_vec_env("mamlrl/Navigation2D-v0", 2, backend)
    envs.reset(seed=np.array([1, 2]))  # NumPy's integers are integers
    with pytest.raises(ValueError, match="-1"):
        envs.reset(seed=[1, -1])
    for wrong in ([1, 1.5], [1, "x"]):
        with pytest.raises(TypeError):
            envs.reset(seed=wrong)
