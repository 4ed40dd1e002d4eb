"""What every task family promises, one function for each promise.

A family that breaks a promise seldom stops with an error: it trains, on something else than was meant. So
each of these functions tries one out. Its name is what a report calls it, and its docstring says it. It is
given a way to make environments, and raises ``Broken`` with what it found and what to do about it.
"""

from __future__ import annotations

import pickle
import random
import warnings
from functools import partial

import cloudpickle
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from .base import DynamicsEnv, TaskEnv, check_task
from .serial_vec_env import SerialVecEnv
from .subproc_vec_env import SubprocVecEnv
from .trial import NUM_TASKS, Broken, differ, play, plays_like_singles, require, sample
from .vec_env import EnvFactory

# Without these nothing else can be tried.


def builds(make: EnvFactory) -> None:
    """A function without arguments builds a ``TaskEnv``, a new one each time."""
    require(callable(make), f"got {make!r}; hand over the class, or a function: every slot needs its own")
    env = make()
    kind = type(getattr(env, "unwrapped", env)).__name__
    require(isinstance(env, gymnasium.Env), f"the function returned a {kind}; it must return an environment")
    require(isinstance(env.unwrapped, TaskEnv), f"{kind} is no TaskEnv; derive it from that class")
    begun = hasattr(env.unwrapped, "horizon")
    require(begun, f"{kind} has no horizon; end its __init__ with super().__init__(horizon)")
    require(make().unwrapped is not env.unwrapped, "two calls returned one environment; build a new one")


def spaces_fit(make: EnvFactory) -> None:
    """An observation is a vector, an action a vector in [-1, 1] or one of 0..n-1, a task a dict of arrays."""
    env = make()
    seen, done, told = env.observation_space, env.action_space, env.unwrapped.task_space
    vector = isinstance(seen, spaces.Box) and len(seen.shape) == 1
    require(vector, f"observation_space is {seen}; a policy sees a vector: flatten, or encode one-hot")
    fits = seen.dtype == np.float32 or not isinstance(env.unwrapped, DynamicsEnv)
    require(fits, f"observation_space is {seen}; what a DynamicsEnv shows is float32")
    if isinstance(done, spaces.Discrete):
        require(done.start == 0, f"action_space is {done}; a policy counts from 0: add {done.start} in step")
    else:
        vector = isinstance(done, spaces.Box) and len(done.shape) == 1 and done.dtype.kind == "f"
        require(vector, f"action_space is {done}; an action is a vector of floats, or one of 0..n-1")
        bounds = np.abs([done.low, done.high])  # (2, A)
        fits = ((bounds == 1.0) | np.isinf(bounds)).all()
        require(fits, f"action_space is {done}; a policy begins with deviation 1: scale actions in step")
    boxes = isinstance(told, spaces.Dict) and all(isinstance(space, spaces.Box) for space in told.values())
    require(boxes, f"task_space is {told}; it must be a Dict of Box: the arrays that a task holds")


def tasks_are_in_form(make: EnvFactory) -> None:
    """``sample_tasks(n, rng)`` returns a list of n tasks that fit ``task_space``, and each can be set."""
    family = make().unwrapped
    for num_tasks in (1, NUM_TASKS):
        tasks = sample(make, num_tasks)
        require(isinstance(tasks, list), f"sample_tasks returned a {type(tasks).__name__}, must be a list")
        require(len(tasks) == num_tasks, f"of {num_tasks} tasks asked for, {len(tasks)} were returned")
        for task in tasks:
            wanted = check_task(task, family.task_space)
            family.reset_task(task)
            found = differ(wanted, getattr(family, "task", {}))
            require(not found, f"reset_task left self.task otherwise ({found}); call super().reset_task")


def no_global_randomness(make: EnvFactory) -> None:
    """Nothing is drawn from the generators that a whole process shares, ``random`` and ``np.random``."""
    before = pickle.dumps((random.getstate(), np.random.get_state()))  # noqa: NPY002
    play(make(), sample(make)[0])
    after = pickle.dumps((random.getstate(), np.random.get_state()))  # noqa: NPY002
    require(before == after, "it used random or np.random; draw from the rng given, or from self.np_random")


def seed_decides(make: EnvFactory) -> None:
    """An episode follows from its seed, its task and its actions, to the bit."""
    task = sample(make)[0]
    found = differ(play(make(), task), play(make(), task))
    require(not found, f"one seed, two episodes ({found}); draw from self.np_random, which reset seeds")


# Its tasks and episodes.


def tasks_follow_rng(make: EnvFactory) -> None:
    """The same generator draws the same tasks, in every environment of the family; another one, others."""
    used = make()
    play(used, sample(make)[1])
    first, again = sample(make), used.unwrapped.sample_tasks(NUM_TASKS, np.random.default_rng(1))
    require(not differ(first, again), "the same rng gave other tasks; draw from rng, and from nothing else")
    require(differ(first, sample(make, seed=2)), "another rng gave the same tasks; draw from rng")
    many = sample(make, num_tasks=32)
    alike = all(not differ(many[0], task) for task in many)
    require(not alike, f"32 tasks are all {many[0]}; draw each of them: there is nothing to adapt to")


def nothing_is_remembered(make: EnvFactory) -> None:
    """An episode knows nothing of the episodes and tasks before it."""
    task, other, *_ = sample(make)
    used = make()
    play(used, other, seed=2)
    found = differ(play(make(), task), play(used, task))
    require(not found, f"another episode before it changed it ({found}); let reset set all that step changes")


def horizon_truncates(make: EnvFactory) -> None:
    """``truncated`` comes at step ``horizon`` and never before; being out of time is not ``terminated``."""
    horizon, deaths = make().unwrapped.horizon, []
    for task in sample(make):
        *before, last = play(make(), task)
        in_time, told = len(before) == horizon, f"step {len(before)} of {horizon} was"
        require(len(before) <= horizon, f"step {horizon} was not truncated; count the steps, and report it")
        require(in_time or not last.truncated, f"{told} truncated; an end before time is terminated")
        require(last.truncated or not in_time, f"{told} terminated alone; time is up, so it is truncated")
        deaths.append(last.truncated and last.terminated)
    require(not all(deaths), f"step {horizon} was always terminated as well; only the time was over")


def turns_are_in_form(make: EnvFactory) -> None:
    """An observation lies in its space, type included; a reward is one finite number; flags are bools."""
    space = make().observation_space
    for task in sample(make):
        for time, (seen, reward, *flags) in enumerate(play(make(), task)):
            inside = seen.dtype == space.dtype and space.contains(seen)
            require(inside, f"after {time} steps it shows {seen!r}; that is not in {space}")
            number = isinstance(reward, float | int | np.floating | np.integer) and np.isfinite(reward)
            require(number, f"the reward of step {time} is {reward!r}; it must be one finite number")
            bools = all(isinstance(flag, bool | np.bool_) for flag in flags)
            require(bools, f"step {time} is terminated, truncated = {flags}; both must be bools")


# What a caller does with a task.


def wrong_tasks_are_refused(make: EnvFactory) -> None:
    """A wrong task is a ``ValueError`` that names the fault, by both ways in, and changes nothing."""
    env, task = make(), sample(make)[0]
    key = min(task)
    shape = np.shape(task[key])
    wrong = {
        "a missing key": (key, {other: value for other, value in task.items() if other != key}),
        "an unknown key": ("gaol", {**task, "gaol": 1.0}),
        "a wrong shape": (key, {**task, key: np.zeros((*shape, 3))}),
        "a NaN": (key, {**task, key: np.full(shape, np.nan)}),
    }
    env.unwrapped.reset_task(task)
    for fault, (name, bad) in wrong.items():
        for move in (env.unwrapped.reset_task, lambda bad: env.reset(seed=1, options={"task": bad})):
            try:
                move(bad)
            except ValueError as error:
                require(name in str(error), f"{fault} is refused without naming {name!r}, by {str(error)!r}")
            except Exception as error:
                raise Broken(f"{fault} is refused by {error!r}; let check_task raise a ValueError") from error
            else:
                raise Broken(f"{fault} is accepted, {bad}; let check_task hold it against task_space")
            found = differ(check_task(task, env.unwrapped.task_space), env.unwrapped.task)
            require(not found, f"{fault} is refused, but the task has moved ({found}); check first, then set")


def task_is_copied(make: EnvFactory) -> None:
    """Who changes a task's arrays later does not move the environment."""
    family = make().unwrapped
    task = check_task(sample(make)[0], family.task_space)
    family.reset_task(task)
    before = check_task(task, family.task_space)
    for value in task.values():
        value += 1.0
    found = differ(before, family.task)
    require(not found, f"it moved with the caller's array ({found}); keep a copy, which check_task returns")


def task_may_be_an_option(make: EnvFactory) -> None:
    """``reset(options={"task": task})`` does what ``reset_task(task)`` and ``reset()`` do."""
    task = sample(make)[1]
    found = differ(play(make(), task), play(make(), task, by_option=True))
    require(not found, f"by option it went differently ({found}); pass options on to super().reset, first")


def reset_task_waits(make: EnvFactory) -> None:
    """Setting a task does not restart the episode."""
    env, task = make(), sample(make)[0]
    told_again = play(env, task, before_turn=lambda time: time == 1 and env.unwrapped.reset_task(task))
    found = differ(play(make(), task), told_again)
    require(not found, f"told its own task in mid-episode, it changed course ({found}); leave that to reset")


# Use: by a policy, by Gymnasium, by many at once.


def any_action_will_do(make: EnvFactory) -> None:
    """Actions beyond [-1, 1] are clipped or borne, not refused: a normal distribution has no bounds."""
    env = make()
    for size in (-50.0, 50.0) if isinstance(env.action_space, spaces.Box) else ():
        env.reset(seed=1)
        seen, reward, *_ = env.step(np.full(env.action_space.shape, size, env.action_space.dtype))
        sound = env.observation_space.contains(seen) and np.isfinite(reward)
        require(sound, f"actions of {size} led to observation {seen} and reward {reward}; clip in step")


def gymnasium_agrees(make: EnvFactory) -> None:
    """Gymnasium's own ``check_env`` has nothing to say."""
    env = make().unwrapped
    env.action_space.seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*infinity")  # a speed has no bounds
        check_env(env, skip_render_check=True)


def it_travels(make: EnvFactory) -> None:
    """What builds it survives cloudpickle, and so the way to a worker."""
    task = sample(make)[0]
    found = differ(play(make(), task), play(cloudpickle.loads(cloudpickle.dumps(make))(), task))
    require(not found, f"its copy plays another episode ({found})")


def serial(make: EnvFactory) -> None:
    """Environments share nothing: side by side, each plays what it plays alone."""
    plays_like_singles(make, SerialVecEnv)


def subproc(make: EnvFactory) -> None:
    """Worker processes play the same episodes, to the bit."""
    plays_like_singles(make, partial(SubprocVecEnv, num_workers=2))


# Tried in this order.
FIRST = (builds, spaces_fit, tasks_are_in_form, no_global_randomness, seed_decides)
PLAY = (tasks_follow_rng, nothing_is_remembered, horizon_truncates, turns_are_in_form)
TASKS = (wrong_tasks_are_refused, task_is_copied, task_may_be_an_option, reset_task_waits)
USE = (any_action_will_do, gymnasium_agrees, it_travels, serial, subproc)
