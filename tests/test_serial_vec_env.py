"""What only the serial loop does: any TaskEnv, wrappers, infos."""

import gymnasium
import numpy as np
import pytest
from envs_for_tests import RandomWalkEnv

from mamlrl_core.envs import SerialVecEnv
from mamlrl_core.envs.navigation import Navigation2DEnv


def test_it_is_a_loop_over_environments():
    envs, slots = SerialVecEnv(RandomWalkEnv, 6), 6
    tasks = envs.sample_tasks(3, np.random.default_rng(0))
    envs.reset_task(tasks)
    observations, infos = envs.reset(seed=1)
    singles = [RandomWalkEnv() for _ in range(slots)]
    for slot, (env, seed) in enumerate(zip(singles, envs._slot_seeds(1), strict=True)):
        env.reset_task(tasks[slot // 2])
        observation, info = env.reset(seed=seed)
        assert (observation == observations[slot]).all() and info["start"] == infos["start"][slot]
    done = np.zeros(slots, dtype=bool)
    for time in range(1, 12):
        action = np.random.default_rng(time).normal(size=(slots, 3)).astype(np.float32)
        observations, rewards, terminated, truncated, infos = envs.step(action)
        assert ("late" in infos) == (time % 3 == 0 and not done.all())
        for slot in np.flatnonzero(done):
            assert (observations[slot] == 0).all() and rewards[slot] == 0.0
        for slot in np.flatnonzero(~done):
            expected = singles[slot].step(action[slot])
            assert (observations[slot] == expected[0]).all()
            assert (rewards[slot], terminated[slot], truncated[slot]) == expected[1:4]
            if expected[4]:
                assert infos["late"]["time"][slot] == time and infos["_late"][slot]
        if infos:
            assert not infos["_late"][done].any()
        done |= terminated | truncated
    assert done.all()


def test_wrappers_are_kept():
    envs = SerialVecEnv(lambda: gymnasium.wrappers.TransformReward(Navigation2DEnv(), lambda r: r - 100), 2)
    envs.reset_task([{"goal": [0.0, 1.0]}])
    envs.reset(seed=0)
    assert envs.step(np.zeros((2, 2)))[1].tolist() == [-101.0, -101.0]


def test_a_space_that_is_not_one_array_is_named():
    class Pair(RandomWalkEnv):
        observation_space = gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(2)})

    with pytest.raises(TypeError, match="Dict"):
        SerialVecEnv(Pair, 2)


def test_close_closes_every_environment():
    closed = []

    class Closing(RandomWalkEnv):
        def close(self):
            closed.append(self)

    SerialVecEnv(Closing, 3).close()
    assert len({id(env) for env in closed}) == 4  # the slots, and the one that draws tasks
