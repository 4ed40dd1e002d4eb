"""``check_task_env``: the package's families keep every promise, and whoever breaks one is told which."""

import inspect
import multiprocessing
import random
import re
import sys
import threading
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from mamlrl_core.envs import FAMILIES, DynamicsEnv, TaskEnv, TaskEnvError, check_task_env
from mamlrl_core.envs.checking import BACKENDS, ROUNDS
from mamlrl_core.envs.dynamics_promises import DYNAMICS

PROMISES = [promise.__name__ for promises in ROUNDS for promise in promises]
IN_PROCESS = ["serial", "batched"]


class Sled(DynamicsEnv):
    """A sled on a slope that it is not told, with gusts: a family that keeps every promise."""

    def __init__(self, horizon=6):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.task_space = spaces.Dict({"slope": spaces.Box(-np.inf, np.inf, (), np.float64)})
        super().__init__(horizon)

    def sample_tasks(self, num_tasks, rng):
        return [{"slope": slope} for slope in rng.uniform(-1.0, 1.0, num_tasks)]

    def draw_start(self, rng):
        return rng.normal(size=2)

    def draw_noise(self, rng):
        return 0.1 * rng.normal(size=(self.horizon, 1))

    def initial_state(self, task, start):
        return start  # place and speed, (..., 2)

    def observe(self, state, task):
        return state

    def transition(self, state, action, noise, task):
        speed = state[..., 1] + 0.1 * np.clip(action[..., 0], -1, 1) - 0.1 * task["slope"] + noise[..., 0]
        place = state[..., 0] + 0.1 * speed
        return np.stack([place, speed], -1), -np.abs(place), np.zeros(place.shape, dtype=bool)


class Walker(TaskEnv):
    """The same without arrays: it writes its own ``reset`` and ``step``, and keeps every promise."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    task_space = spaces.Dict({"drift": spaces.Box(-np.inf, np.inf, (), np.float64)})

    def __init__(self, horizon=6):
        super().__init__(horizon)

    def sample_tasks(self, num_tasks, rng):
        return [{"drift": drift} for drift in rng.uniform(-1.0, 1.0, num_tasks)]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.time, self.place = 0, self.np_random.normal()
        return self.seen(), {}

    def seen(self):
        return np.array([self.place], np.float32)

    def step(self, action):
        self.time += 1
        self.place += self.task["drift"] + float(np.clip(action, -1, 1).sum()) + self.np_random.normal()
        return self.seen(), -abs(self.place), self.place > 9.0, self.time >= self.horizon, {}


class Counting(Walker):
    """Discrete actions, for the same world."""

    action_space = spaces.Discrete(3)

    def step(self, action):
        return super().step(np.full(2, action - 1.0))


def with_space(family, **changed):
    class Changed(family):
        def __init__(self):
            super().__init__()
            vars(self).update(changed)

    return Changed


# One environment for each way to break a promise, with the promises that it breaks, and what is said.
WRONG = []


def wrong(broken, said):
    def note(env):
        WRONG.append(pytest.param(env, broken.split(), said, id=f"{broken.split()[0]}-{len(WRONG)}"))
        return env

    return note


def wrong_env(broken, said, env):
    wrong(broken, said)(env)


# Form


class Plain(gymnasium.Env):
    observation_space, action_space = Walker.observation_space, Walker.action_space


class NoHorizon(Walker):
    def __init__(self):
        self.reset_task({"drift": 0.0})


class Raising(Walker):
    def __init__(self):
        raise FileNotFoundError("no map of the mountain")


the_only_one = Walker()
wrong_env("builds", "hand over the class", Walker())
wrong_env("builds", "must return an environment", dict)
wrong_env("builds", "Plain is no TaskEnv", Plain)
wrong_env("builds", "NoHorizon has no horizon", NoHorizon)
wrong_env("builds", "two calls returned one environment", lambda: the_only_one)
wrong_env("builds", "FileNotFoundError: no map of the mountain", Raising)


class RaisingFrom(Walker):
    def __init__(self):
        try:
            {}["map"]
        except KeyError as error:
            raise FileNotFoundError("no map, again") from error


wrong_env("builds", "FileNotFoundError: no map, again", RaisingFrom)
wrong_env("builds", "NamespaceNotFound.*promised: A function", "no/Such-v0")

wrong_env("spaces_fit", r"Discrete\(4\).*one-hot", with_space(Walker, observation_space=spaces.Discrete(4)))
wrong_env("spaces_fit", r"\(2, 2\).*flatten", with_space(Walker, observation_space=spaces.Box(0, 1, (2, 2))))
wrong_env(
    "spaces_fit", "float64.*float32", with_space(Sled, observation_space=spaces.Box(0, 1, (2,), np.float64))
)
wrong_env(
    "spaces_fit", "counts from 0: add 1", with_space(Counting, action_space=spaces.Discrete(3, start=1))
)
wrong_env("spaces_fit", "MultiDiscrete", with_space(Walker, action_space=spaces.MultiDiscrete([2, 2])))
wrong_env(
    "spaces_fit", "vector of floats", with_space(Walker, action_space=spaces.Box(-1, 1, (2,), np.int64))
)
wrong_env("spaces_fit", "vector of floats", with_space(Walker, action_space=spaces.Box(-1.0, 1.0, (2, 1))))
wrong_env("spaces_fit", "scale actions in step", with_space(Walker, action_space=spaces.Box(-0.1, 0.1, (2,))))
wrong_env(
    "spaces_fit", "Dict of Box", with_space(Walker, task_space=spaces.Dict({"drift": spaces.Discrete(2)}))
)


@wrong("tasks_are_in_form", "tuple, must be a list")
class TupleOfTasks(Walker):
    def sample_tasks(self, num_tasks, rng):
        return tuple(super().sample_tasks(num_tasks, rng))


@wrong("tasks_are_in_form", "of 4 tasks asked for, 1 were returned")
class OneTask(Walker):
    def sample_tasks(self, num_tasks, rng):
        return super().sample_tasks(1, rng)


@wrong("tasks_are_in_form", "task\\['drift'\\] must be finite, got nan")
class SometimesNaN(Walker):
    def sample_tasks(self, num_tasks, rng):
        return [*super().sample_tasks(num_tasks - 1, rng), {"drift": 0.0 if num_tasks == 1 else np.nan}]


@wrong("tasks_are_in_form", "only one has drift.*super\\(\\).reset_task")
class TaskElsewhere(Walker):
    def reset_task(self, task):
        self.drift = task["drift"]


@wrong("no_global_randomness", "np.random")
class GlobalNumpy(Walker):
    def step(self, action):
        np.random.random()  # noqa: NPY002
        return super().step(action)


@wrong("no_global_randomness", "it used random")
class GlobalPython(Walker):
    def sample_tasks(self, num_tasks, rng):
        random.random()
        return super().sample_tasks(num_tasks, rng)


# Play


@wrong("tasks_follow_rng", "the same rng gave other tasks")
class OwnGenerator(Walker):
    def sample_tasks(self, num_tasks, rng):
        return super().sample_tasks(num_tasks, np.random.default_rng())


@wrong("tasks_follow_rng", "the same rng gave other tasks")
class TasksByHistory(Walker):
    def sample_tasks(self, num_tasks, rng):
        return [
            {"drift": task["drift"] + getattr(self, "time", 0)}
            for task in super().sample_tasks(num_tasks, rng)
        ]


@wrong("tasks_follow_rng", "another rng gave the same tasks")
class AlwaysSeedZero(Walker):
    def sample_tasks(self, num_tasks, rng):
        return super().sample_tasks(num_tasks, np.random.default_rng(0))


@wrong("tasks_follow_rng", "32 tasks are all .*nothing to adapt to")
class DrawnOnce(Walker):
    def sample_tasks(self, num_tasks, rng):
        return super().sample_tasks(1, rng) * num_tasks


@wrong("seed_decides", "step 0, observation.*self.np_random")
class Unseeded(Walker):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.place = np.random.default_rng().normal()
        return self.seen(), {}


@wrong("nothing_is_remembered", "let reset set all")
class Tired(Walker):
    steps_ever = 0

    def step(self, action):
        self.steps_ever += 1
        observation, reward, *flags, info = super().step(action)
        return observation, reward - 0.01 * self.steps_ever, *flags, info


@wrong("horizon_truncates", "step 6 was not truncated; count")
class Endless(Walker):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, False, info


@wrong("horizon_truncates", "step 3 of 6 was truncated")
class Impatient(Walker):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, self.time >= 3, info


@wrong("horizon_truncates", "step 6 of 6 was terminated alone")
class TimeAsDeath(Walker):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, False, info


@wrong("horizon_truncates", "step 6 was always terminated as well")
class TimeAsBoth(Walker):
    def step(self, action):
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, truncated, truncated, info


@wrong("turns_are_in_form", "shows array.*not in Box")
class WideObservation(Walker):
    def seen(self):
        return np.array([self.place], np.float64)


@wrong("turns_are_in_form", r"after \d steps it shows .*not in Box\(-1e-09")
class OutOfBounds(Walker):
    observation_space = spaces.Box(-1e-9, 1e-9, (1,), np.float32)


@wrong("turns_are_in_form", r"the reward of step 1 is array\(.*one finite number")
class RewardAsArray(Walker):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, np.array([reward]), *rest


@wrong("turns_are_in_form", "the reward of step 2 is inf")
class InfiniteReward(Walker):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, np.inf if self.time == 2 else reward, *rest


@wrong("turns_are_in_form", r"\[0, False\]; both must be bools")
class FlagAsNumber(Walker):
    def step(self, action):
        observation, reward, terminated, *rest = super().step(action)
        return observation, reward, int(terminated), *rest


# Tasks


@wrong("wrong_tasks_are_refused", "a missing key is accepted.*let check_task")
class Credulous(Walker):
    def reset_task(self, task):
        self.task = {"drift": np.array(task.get("drift", 0.0), dtype=float)}


@wrong("wrong_tasks_are_refused", "a NaN is accepted")
class NanBlind(Walker):
    def reset_task(self, task):
        if set(task) != {"drift"} or np.shape(task["drift"]) != ():
            raise ValueError(f"a task has one number, drift, got {task}")
        self.task = {"drift": np.array(task["drift"], dtype=float)}


@wrong("wrong_tasks_are_refused", "refused without naming 'drift'")
class Taciturn(Walker):
    def reset_task(self, task):
        try:
            super().reset_task(task)
        except ValueError:
            raise ValueError("bad task") from None


@wrong("wrong_tasks_are_refused", r"a missing key is refused by KeyError\('drift'\); let check_task")
class OtherError(Walker):
    def reset_task(self, task):
        task["drift"]
        super().reset_task(task)


@wrong("wrong_tasks_are_refused", "refused, but the task has moved")
class SetsFirst(Walker):
    def reset_task(self, task):
        self.task = {"drift": np.array(99.0)}
        super().reset_task(task)


@wrong("task_is_copied", "drift: .*keep a copy")
class KeepsTheArray(Walker):
    def reset_task(self, task):
        super().reset_task(task)
        self.task = dict(task)


@wrong("task_may_be_an_option", "pass options on to super")
class OptionTooLate(Walker):
    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.time, self.place = 0, self.np_random.normal() + self.task["drift"]
        if options:
            self.reset_task(options["task"])
        return self.seen(), {}


@wrong("task_may_be_an_option wrong_tasks_are_refused", "a missing key is accepted")
class NoOption(Walker):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)


@wrong("reset_task_waits", "in mid-episode.*only one has step|in mid-episode")
class Restarts(Walker):
    def reset_task(self, task):
        super().reset_task(task)
        self.time, self.place = 0, 0.0


# Use


@wrong("any_action_will_do", "AssertionError: not an action")
class Strict(Walker):
    def step(self, action):
        assert self.action_space.contains(action), "not an action"
        return super().step(action)


@wrong("any_action_will_do", "actions of -50.0 led to observation .*clip in step")
class Unclipped(Walker):
    observation_space = spaces.Box(-60.0, 60.0, (1,), np.float32)

    def step(self, action):
        self.place += action.sum() if abs(action.sum()) > 2 else 0.0
        return super().step(action)


@wrong("gymnasium_agrees", "must be a python dictionary")
class NoInfo(Walker):
    def step(self, action):
        *rest, _ = super().step(action)
        return *rest, None


@wrong("subproc", "parent_process")
class AfraidOfWorkers(Walker):
    def step(self, action):
        if multiprocessing.parent_process() is not None:
            raise RuntimeError("parent_process() is somebody")
        return super().step(action)


@wrong("subproc", "pickle")
class InfoThatCannotTravel(Walker):
    def step(self, action):
        *rest, _ = super().step(action)
        return *rest, {"file": sys.__stderr__}


@wrong("serial subproc", "slot 0 of 8 played another episode than one alone")
class SharedPlace(Walker):
    places = [0.0]  # noqa: RUF012 (the mistake: one list for all instances)

    @property
    def place(self):
        return self.places[0]

    @place.setter
    def place(self, value):
        self.places[0] = value


wrong_env("it_travels subproc", "TypeError: cannot pickle", partial(lambda lock: Walker(), threading.Lock()))


# Dynamics


@wrong("chance_comes_first batched", "draw_start gave other numbers for the same rng")
class OwnStart(Sled):
    def draw_start(self, rng):
        return self.np_random.normal(size=2)


@wrong("chance_comes_first", "draw_noise has 7 rows, for 6 steps")
class TooMuchNoise(Sled):
    def draw_noise(self, rng):
        return rng.normal(size=(self.horizon + 1, 1))


@wrong("dynamics_are_functions batched", "use the argument task, not self.task")
class OwnTask(Sled):
    def transition(self, state, action, noise, task):
        return super().transition(state, action, noise, self.task)


@wrong("dynamics_are_functions batched", "initial_state depends on the environment")
class OwnStartingPlace(Sled):
    def initial_state(self, task, start):
        return start + self.task["slope"] * np.array([0.0, 1.0])


@wrong("dynamics_are_functions any_leading_axes", "it changed its arguments .*not x \\+= y")
class InPlace(Sled):
    def transition(self, state, action, noise, task):
        state[..., 1] *= 0.9
        return super().transition(state, action, noise, task)


@wrong("any_leading_axes batched dynamics_are_functions", "ValueError: The truth value of an array")
class PythonIf(Sled):
    def transition(self, state, action, noise, task):
        state, reward, terminated = super().transition(state, action, noise, task)
        return state, reward if reward > -1 else reward - 1.0, terminated


@wrong("any_leading_axes batched", r"12 rows have reward of shape \(\), not \(12,\)")
class SumsOverAll(Sled):
    def transition(self, state, action, noise, task):
        state, _, terminated = super().transition(state, action, noise, task)
        return state, -(state * state).sum(), terminated


@wrong("any_leading_axes batched", "keep to elementwise, no @")
class SeesItsNeighbours(Sled):
    def observe(self, state, task):
        return state / np.abs(state).max()


@wrong("any_leading_axes batched", "keep to elementwise, no @")
class MatrixProduct(Sled):
    MIX = np.random.default_rng(0).normal(size=(64, 2))

    def transition(self, state, action, noise, task):
        state, reward, terminated = super().transition(state, action, noise, task)
        features = np.sin(state[..., :1] * np.arange(64))  # (..., 64)
        return state + 0.1 * (features @ self.MIX), reward, terminated


@wrong("any_leading_axes", r"could not be broadcast together.*\(promised: Many rows")
class OneAxisOnly(Sled):
    def transition(self, state, action, noise, task):
        place, speed = state.T  # for a grid of rows this turns the grid as well
        return super().transition(np.stack([place, speed], -1), action, noise, task)


@wrong("batched", "slot 0 of 8 played another episode")
class BonusInStep(Sled):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward + 1.0, *rest


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_keeps_every_promise(family):
    short = {"horizon": 20} if FAMILIES[family][0] in ("locomotion", "navigation") else {}
    env = partial(gymnasium.make, family, **short)
    assert check_task_env(env, backends=IN_PROCESS) == [name for name in PROMISES if name != "subproc"]


@pytest.mark.parametrize(
    "env", [Sled, "mamlrl/TabularMDP-v0", partial(gymnasium.make, "mamlrl/AntGoal-v0", horizon=9)]
)
def test_workers_keep_them_too(env):
    assert check_task_env(env) == PROMISES


@pytest.mark.parametrize("env", [Walker, Counting])
def test_a_family_without_arrays_is_not_asked_for_dynamics(env):
    dynamics = [promise.__name__ for promise in DYNAMICS]
    assert check_task_env(env) == [name for name in PROMISES if name not in dynamics]


def test_an_environment_that_would_end_the_program_is_told():
    class Quits(Sled):
        def observe(self, state, task):
            sys.exit(0)

    with pytest.raises(TaskEnvError, match="SystemExit: 0"):
        check_task_env(Quits, backends=["serial"])


@pytest.mark.parametrize(("env", "broken", "said"), WRONG)
def test_a_broken_promise_is_named(env, broken, said):
    backends = BACKENDS if "subproc" in broken else IN_PROCESS
    with pytest.raises(TaskEnvError) as caught:
        check_task_env(env, backends=backends)
    assert re.search(said, " ".join(str(caught.value).split()))  # which is broken into lines
    assert all(len(line) <= 80 for line in str(caught.value).splitlines()[1:])
    assert sorted(caught.value.broken) == sorted(broken)


def test_every_promise_is_broken_by_somebody_and_said_in_words():
    assert {broken for case in WRONG for broken in case.values[1]} == set(PROMISES)
    assert all(inspect.getdoc(promise).endswith(".") for promises in ROUNDS for promise in promises)


def test_all_broken_promises_are_told_at_once_with_the_first_exception():
    class Many(Strict, Restarts, KeepsTheArray):
        pass

    with pytest.raises(TaskEnvError, match="Many breaks 3 promises of a task family") as caught:
        check_task_env(Many, backends=["serial"])
    assert list(caught.value.broken) == ["task_is_copied", "reset_task_waits", "any_action_will_do"]
    assert isinstance(caught.value.__cause__, AssertionError)
    assert str(caught.value).count("\n  ") == str(caught.value).count("\n") >= 3


def test_an_unknown_backend_is_named():
    with pytest.raises(ValueError, match=r"\['threads'\]"):
        check_task_env(Sled, backends=["threads"])


def test_it_leaves_the_global_generators_alone():
    random.seed(1), np.random.seed(1)  # noqa: NPY002
    before = random.getstate(), str(np.random.get_state())  # noqa: NPY002
    check_task_env(Sled, backends=IN_PROCESS)
    assert before == (random.getstate(), str(np.random.get_state()))  # noqa: NPY002
