"""What every family promises: Gymnasium's interface, tasks that are checked, actions that are checked."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from mamlrl_core.envs import FAMILIES, BatchedVecEnv, DynamicsEnv, make_vec_env
from mamlrl_core.envs.bandit import BernoulliBanditEnv
from mamlrl_core.envs.navigation import Navigation2DEnv


@pytest.mark.parametrize("family", FAMILIES)
def test_gymnasium_accepts_the_family(family):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A physical state has no bounds, and Gymnasium's own bodies say so too.
        warnings.filterwarnings("ignore", ".*A Box observation space m.*imum value is -?infinity")
        check_env(gymnasium.make(family).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_gymnasium_builds_vector_environments(family):
    own = gymnasium.make_vec(family, num_envs=4)
    assert isinstance(own, BatchedVecEnv) and own.num_envs == 4
    observations, _ = own.reset(seed=0)
    assert observations in own.observation_space
    for mode in ("sync", "async"):
        envs = gymnasium.make_vec(family, num_envs=2, vectorization_mode=mode)
        assert envs.reset(seed=0)[0].shape == (2, *own.single_observation_space.shape)
        envs.close()
    assert gymnasium.make_vec(family, num_envs=2, horizon=3).family.horizon == 3


@pytest.mark.parametrize("family", FAMILIES)
def test_tasks_come_from_the_given_generator_alone(family):
    env = gymnasium.make(family).unwrapped
    once, again, other = (env.sample_tasks(3, np.random.default_rng(seed)) for seed in (1, 1, 2))
    for key in env.task_space:
        assert all((a[key] == b[key]).all() for a, b in zip(once, again, strict=True))
        assert all((a[key] != b[key]).any() for a, b in zip(once, other, strict=True))
        assert all(np.asarray(task[key]) in env.task_space[key] for task in once)
        assert (once[0][key] != once[1][key]).any()


@pytest.mark.parametrize("family", FAMILIES)
def test_an_episode_follows_from_its_seed_and_ends_at_the_horizon(family):
    def play(env):
        episode = [env.reset(seed=11)[0]]
        env.action_space.seed(5)
        for time in range(1, env.unwrapped.horizon + 1):
            observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            episode += [observation, reward]
            assert not terminated and truncated == (time == env.unwrapped.horizon)
        with pytest.raises(ResetNeeded):
            env.step(env.action_space.sample())
        return np.concatenate([np.ravel(part) for part in episode])

    env = gymnasium.make(family, disable_env_checker=True)
    assert (play(env) == play(env)).all()
    assert (play(env) == play(gymnasium.make(family))).all()


def test_a_task_comes_by_method_or_by_option():
    goal = np.array([0.25, -0.25])
    env = gymnasium.make("mamlrl/Navigation2D-v0")
    env.reset(seed=0, options={"task": {"goal": goal}})
    assert (env.unwrapped.task["goal"] == goal).all()
    _, reward, *_ = env.step(np.zeros(2, np.float32))
    assert reward == -np.sqrt(0.125)
    env.unwrapped.reset_task({"goal": 2 * goal})
    env.reset(seed=0)
    assert env.step(np.zeros(2, np.float32))[1] == -2 * np.sqrt(0.125)


def test_a_task_is_copied():
    env, goal = Navigation2DEnv(), np.zeros(2)
    env.reset_task({"goal": goal})
    goal += 1
    assert (env.task["goal"] == 0).all()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (None, "got None"),
        ([0.1, 0.2], r"got \[0\.1, 0\.2\]"),
        ({}, r"keys \['goal'\], got \[\]"),
        ({"gaol": [0.0, 0.0]}, "gaol"),
        ({"goal": [0.0, 0.0], "speed": 1.0}, "speed"),
        ({"goal": [0.0, 0.0, 0.0]}, r"'goal'.*shape \(2,\), got \(3,\)"),
        ({"goal": 0.0}, r"shape \(2,\), got \(\)"),
        ({"goal": ["north", "west"]}, "north"),
        ({"goal": [0.0, np.nan]}, "'goal'.*finite.*nan"),
        ({"goal": [np.inf, 0.0]}, "'goal'.*finite.*inf"),
    ],
)
def test_a_wrong_task_is_named_and_changes_nothing(task, message):
    env = Navigation2DEnv()
    before = env.task["goal"].copy()
    for move in (env.reset_task, lambda task: env.reset(options={"task": task})):
        with pytest.raises(ValueError, match=message):
            move(task)
    assert (env.task["goal"] == before).all()


def test_an_out_of_range_task_is_named():
    with pytest.raises(ValueError, match=r"'means'.*\[0\.0, 1\.0\].*1\.5"):
        BernoulliBanditEnv(num_arms=2).reset_task({"means": [0.5, 1.5]})


def test_an_unknown_reset_option_is_named():
    with pytest.raises(ValueError, match="goal"):
        Navigation2DEnv().reset(options={"goal": [0.0, 0.0]})


@pytest.mark.parametrize(
    ("family", "action", "message"),
    [
        ("mamlrl/Navigation2D-v0", [0.0, np.nan], "finite.*nan"),
        ("mamlrl/Navigation2D-v0", [0.0], r"shape \(2,\), got \(1,\)"),
        ("mamlrl/Navigation2D-v0", [[0.0, 0.0]], r"shape \(2,\), got \(1, 2\)"),
        ("mamlrl/BernoulliBandit5-v0", 5, r"0\.\.4, got \[5\]"),
        ("mamlrl/BernoulliBandit5-v0", -1, r"got \[-1\]"),
        ("mamlrl/BernoulliBandit5-v0", 1.0, "integer, got float64"),
        ("mamlrl/BernoulliBandit5-v0", [1], r"shape \(\), got \(1,\)"),
    ],
)
def test_a_wrong_action_is_named(family, action, message):
    env = gymnasium.make(family).unwrapped
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(action)
    for backend in ("batched", "serial"):
        envs = make_vec_env(family, 2, backend)
        envs.reset(seed=0)
        with pytest.raises(ValueError, match="action"):
            envs.step([action, action])


class SumEnv(DynamicsEnv):
    """Pays a sum over the action: twenty numbers, whose order decides how it is rounded."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (20,), np.float32)
    task_space = spaces.Dict({"nothing": spaces.Box(0.0, 0.0, (), np.float64)})

    def __init__(self):
        super().__init__(horizon=9)

    def sample_tasks(self, num_tasks, rng):
        return [{"nothing": 0.0}] * num_tasks

    def initial_state(self, task, start):
        return np.zeros((*start.shape[:-1], 1))

    def observe(self, state, task):
        return state

    def transition(self, state, action, noise, task):
        return state, (action * action).sum(-1), np.zeros(action.shape[:-1], dtype=bool)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_how_actions_lie_in_memory_makes_no_difference(dtype):
    actions = np.random.default_rng(0).normal(size=(30, 20)).astype(dtype)
    layouts = [actions, np.asfortranarray(actions), np.repeat(actions, 2, axis=1)[:, ::2]]
    single, rewards = SumEnv(), []
    for action in actions:
        single.reset()
        rewards.append(single.step(action)[1])
    for backend in ("serial", "batched"):
        envs = make_vec_env(SumEnv, 30, backend)
        envs.reset()
        for layout in layouts:
            assert envs.step(layout)[1].tolist() == rewards


def test_the_horizon_is_checked():
    for horizon in (0, -3, 2.5):
        with pytest.raises(ValueError, match=f"{horizon}"):
            Navigation2DEnv(horizon=horizon)


def test_step_needs_reset():
    with pytest.raises(ResetNeeded):
        Navigation2DEnv().step(np.zeros(2))


def test_a_half_written_family_says_so():
    class Empty(DynamicsEnv):
        pass

    with pytest.raises(NotImplementedError):
        Empty(horizon=1)
