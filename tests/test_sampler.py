"""The sampler: the same episodes to the bit on every backend, and episodes that really happened."""

from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded

from mamlrl_core.envs import make_vec_env
from mamlrl_core.envs.bandit import BernoulliBanditEnv
from mamlrl_core.envs.navigation import Navigation2DEnv
from mamlrl_core.envs.tabular_mdp import TabularMDPEnv
from mamlrl_core.episodes import BatchEpisodes
from mamlrl_core.policies import CategoricalMLPPolicy, NormalMLPPolicy
from mamlrl_core.sampler import BatchSampler
from mamlrl_core.seeding import Purpose, derive_seed

NAVIGATION = partial(Navigation2DEnv, horizon=12)
MDP = partial(TabularMDPEnv, horizon=6)
BACKENDS = [("serial", {}), *(("subproc", {"num_workers": workers}) for workers in (1, 2, 3))]


def make_policy(sampler, dtype=torch.float32):
    generator = torch.Generator().manual_seed(5)
    space = sampler.envs.single_action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        policy = CategoricalMLPPolicy(sampler.obs_dim, int(space.n), hidden_sizes=(8,), generator=generator)
    else:
        policy = NormalMLPPolicy(sampler.obs_dim, 2, hidden_sizes=(8,), generator=generator)
    return policy.to(dtype)


def adapted(policy, num_tasks):
    """A different parameter set for every task."""
    scale = 1 + 0.1 * torch.arange(num_tasks, dtype=next(policy.parameters()).dtype)
    return {name: torch.stack([s * tensor for s in scale]) for name, tensor in policy.params().items()}


THETA_THEN_ADAPTED = ((0, 0, False), (2, 1, True))


def play(
    family, backend="batched", dtype=torch.float32, N=3, B=4, seed=7, calls=THETA_THEN_ADAPTED, **kwargs
):
    """The episodes of some calls (iteration, phase, with adapted parameters)."""
    with BatchSampler(family, N, B, seed=seed, backend=backend, **kwargs) as sampler:
        policy = make_policy(sampler, dtype)
        sampler.reset_task(sampler.sample_tasks(1))
        return [
            sampler.sample(policy, adapted(policy, N) if own else None, iteration=iteration, phase=phase)
            for iteration, phase, own in calls
        ]


def same(one: BatchEpisodes, other: BatchEpisodes) -> bool:
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(one, other, strict=True))


# ----------------------------------------------------------------------------------------- the same bits


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("backend", "kwargs"), BACKENDS)
@pytest.mark.parametrize("family", [NAVIGATION, MDP])
def test_every_backend_plays_the_same_episodes(family, backend, kwargs, dtype):
    reference = play(family, dtype=dtype)
    others = play(family, backend, dtype, **kwargs)
    for one, other in zip(reference, others, strict=True):
        assert one.rewards.dtype == one.observations.dtype == dtype
        assert same(one, other)


def test_a_phase_of_an_iteration_can_be_played_again_and_differs_from_every_other():
    calls = ((0, 0, False), (0, 1, False), (1, 0, False), (1, 1, False), (0, 0, False))
    *episodes, again = play(BernoulliBanditEnv, calls=calls)
    assert same(episodes[0], again)
    other_seed = play(BernoulliBanditEnv, seed=8, calls=calls[:1])
    episodes += other_seed
    for i, one in enumerate(episodes):
        for other in episodes[:i]:
            assert not torch.equal(one.actions, other.actions)
            assert not torch.equal(one.rewards, other.rewards)


def test_every_episode_has_its_own_stream():
    (episodes,) = play(MDP, N=4, B=5, calls=((0, 0, False),))
    actions = episodes.actions.transpose(1, 2).flatten(0, 1)  # (NB, T)
    assert len({tuple(row.tolist()) for row in actions}) > 15
    (episodes,) = play(NAVIGATION, N=4, B=5, calls=((0, 0, False),))
    first = episodes.actions[:, 0].flatten(0, 1)  # all from the same observation
    assert len(first.unique(dim=0)) == 20


@pytest.mark.parametrize("family", [NAVIGATION, MDP])
def test_an_episode_does_not_depend_on_how_many_others_are_played(family):
    few, many = (play(family, B=B, calls=((3, 1, False),))[0] for B in (2, 5))
    steps = few.mask.shape[1]
    for name, one in few._asdict().items():
        other = getattr(many, name)[:, :steps, :2]
        torch.testing.assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")


def test_tasks_of_an_iteration():
    with BatchSampler(NAVIGATION, 3, 1, seed=1) as one, BatchSampler(NAVIGATION, 3, 2, seed=1) as other:
        for iteration in (0, 5):
            for a, b in zip(one.sample_tasks(iteration), other.sample_tasks(iteration), strict=True):
                np.testing.assert_array_equal(a["goal"], b["goal"])
        assert not np.array_equal(one.sample_tasks(0)[0]["goal"], one.sample_tasks(1)[0]["goal"])


def test_no_global_generator_is_used():
    state, numpy_state = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
    play(MDP)
    assert torch.equal(torch.get_rng_state(), state)
    assert str(np.random.get_state()) == str(numpy_state)  # noqa: NPY002


# ------------------------------------------------------------------------------------- what really happened


@pytest.mark.parametrize("family", [NAVIGATION, MDP])
def test_episodes_can_be_replayed_in_a_single_environment(family):
    """Observation t is what was seen before action t, reward t is what followed, and the end is the end."""
    N, B = 3, 4
    with BatchSampler(family, N, B, seed=7) as sampler:
        policy = make_policy(sampler)
        tasks = sampler.sample_tasks(0)
        sampler.reset_task(tasks)
        episodes = sampler.sample(policy, adapted(policy, N), iteration=4, phase=1)
    for i, b in np.ndindex(N, B):
        env = family()
        env.reset_task(tasks[i])
        observation, _ = env.reset(seed=derive_seed(7, Purpose.ENVIRONMENT, 4, 1, i, b))
        length = int(episodes.lengths[i, b])
        for t in range(length):
            np.testing.assert_array_equal(episodes.observations[i, t, b], observation)
            action = episodes.actions[i, t, b].numpy()
            observation, reward, terminated, truncated, _ = env.step(action)
            assert episodes.rewards[i, t, b].item() == np.float32(reward)
            assert (terminated or truncated) == (t == length - 1)
        for tensor in (episodes.observations, episodes.actions, episodes.rewards):
            assert not tensor[i, length:, b].any()


def test_actions_come_from_the_policy_of_their_task():
    """Taken back through log pi: an action is its mean plus sigma times the noise of its stream."""
    N, B = 3, 4
    with BatchSampler(NAVIGATION, N, B, seed=7) as sampler:
        policy = make_policy(sampler, torch.float64)
        sampler.reset_task(sampler.sample_tasks(0))
        params = adapted(policy, N)
        episodes = sampler.sample(policy, params, iteration=4, phase=1)
    for i, b in np.ndindex(N, B):
        length = int(episodes.lengths[i, b])
        stream = np.random.default_rng(derive_seed(7, Purpose.ACTIONS, 4, 1, i, b))
        noise = torch.as_tensor(policy.draw_noise(stream, 12))[:length]
        own = {name: tensor[i] for name, tensor in params.items()}
        pi = policy.apply(own, episodes.observations[i, :length, b])
        torch.testing.assert_close(episodes.actions[i, :length, b], pi.sample(noise))


def test_masks_of_episodes_that_end_early():
    """Everybody walks 0.05 per step along the diagonal: the first goal is one step away, the second two."""
    with BatchSampler(NAVIGATION, 3, 2) as sampler:
        policy = NormalMLPPolicy(2, 2, hidden_sizes=(), init_std=1e-6)
        with torch.no_grad():
            policy.layers[0].weight.zero_()
            policy.layers[0].bias.fill_(0.5)
        goals = [[0.05, 0.05], [0.1, 0.1], [-0.4, 0.4]]
        sampler.reset_task([{"goal": goal} for goal in goals])
        episodes = sampler.sample(policy)
        assert episodes.lengths.tolist() == [[1, 1], [2, 2], [12, 12]]
        assert torch.equal(episodes.mask, torch.arange(12)[None, :, None] < episodes.lengths[:, None])
        walked = torch.tensor([[0.0, 0.0], [0.05, 0.05], [0.0, 0.0]])
        torch.testing.assert_close(episodes.observations[1, :3, 0], walked)
        assert episodes.rewards[1, 0, 0].item() == pytest.approx(-0.05 * 2**0.5, abs=1e-5)

        sampler.reset_task([{"goal": goals[1]}] * 3)
        assert sampler.sample(policy).mask.shape == (3, 2, 2)  # no longer than the longest


def test_a_task_can_be_shown_to_the_policy():
    with BatchSampler(MDP, 2, 3, observe_task=True) as told, BatchSampler(MDP, 2, 3) as untold:
        task = told.sample_tasks(0)[0]
        size = sum(np.size(value) for value in task.values())
        assert told.obs_dim == untold.obs_dim + size

    with BatchSampler(NAVIGATION, 2, 3, observe_task=True) as sampler:
        goals = np.array([[0.25, -0.5], [0.125, 0.0]])  # exact in float32
        sampler.reset_task([{"goal": goal} for goal in goals])
        episodes = sampler.sample(make_policy(sampler))
        assert sampler.obs_dim == episodes.observations.shape[-1] == 4
        for i in range(2):
            seen = episodes.observations[i][episodes.mask[i]][:, 2:]
            np.testing.assert_array_equal(seen, np.broadcast_to(goals[i], seen.shape))


def test_a_policy_that_is_to_be_told_the_task_needs_one():
    with BatchSampler(NAVIGATION, 2, 3, observe_task=True) as sampler:
        policy = make_policy(sampler)
        with pytest.raises(ResetNeeded, match=r"call reset_task\(\) before sample\(\)"):
            sampler.sample(policy)
        sampler.reset_task(sampler.sample_tasks(0))
        assert sampler.sample(policy).mask.any()


def test_no_gradient_is_recorded():
    (episodes, _) = play(NAVIGATION)
    assert not any(tensor.requires_grad for tensor in episodes)


# ----------------------------------------------------------------------------------------- bad arguments


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="got 0 tasks and 4 episodes"):
        BatchSampler(NAVIGATION, 0, 4)
    with pytest.raises(ValueError, match="got 3 tasks and -1 episodes"):
        BatchSampler(NAVIGATION, 3, -1)
    with pytest.raises(ValueError, match="got 'threads'"):
        BatchSampler(NAVIGATION, 3, 1, backend="threads")
    with BatchSampler(NAVIGATION, 3, 1) as sampler:
        with pytest.raises(ValueError, match="3 tasks at a time, got 2"):
            sampler.reset_task(sampler.sample_tasks(0)[:2])
        with pytest.raises(ValueError, match="-1"):
            sampler.sample(make_policy(sampler), iteration=-1)


class BreaksNearTheGoal(Navigation2DEnv):
    def transition(self, state, action, noise, task):
        state, reward, _ = super().transition(state, action, noise, task)
        near = reward > -1
        return np.where(near[..., None], np.nan, state), reward, near

    def observe(self, state, task):
        return np.nan_to_num(state)

    def broken(self, state):
        return np.isnan(state[..., 0])


@pytest.mark.parametrize("backend", ["batched", "serial", "subproc"])
def test_a_simulation_that_breaks_is_told_of(backend, recwarn):
    with BatchSampler(BreaksNearTheGoal, 2, 3, backend=backend) as sampler:
        policy = make_policy(sampler)
        sampler.reset_task([{"goal": [9.0, 9.0]}, {"goal": [9.0, 9.0]}])
        sampler.sample(policy)
        assert not recwarn and sampler.broken == 0
        sampler.reset_task([{"goal": [0.0, 0.0]}, {"goal": [9.0, 9.0]}])
        with pytest.warns(UserWarning, match=r"the simulation blew up.*in 3 of 6 episodes"):
            episodes = sampler.sample(policy)
        assert sampler.broken == 3
        assert (episodes.lengths[1] == sampler.horizon).all() and (episodes.lengths[0] == 1).all()


class OtherSpaces(Navigation2DEnv):
    """Navigation that claims to see and do something else."""

    def __init__(self, **spaces):
        super().__init__()
        self.__dict__.update(spaces)


@pytest.mark.parametrize("backend", ["batched", "serial", "subproc"])
@pytest.mark.parametrize(
    ("spaces", "match"),
    [
        ({"observation_space": gymnasium.spaces.Discrete(4)}, r"sees a vector .* not Discrete\(4\)"),
        ({"observation_space": gymnasium.spaces.Box(0, 1, (8, 8))}, r"sees a vector .*\(8, 8\)"),
        ({"observation_space": gymnasium.spaces.Box(0, 1, ())}, r"sees a vector"),
        ({"action_space": gymnasium.spaces.Discrete(4, start=1)}, r"0..n-1, not Discrete\(4, start=1\)"),
        ({"action_space": gymnasium.spaces.Box(0, 1, (2, 3))}, r"a vector or one of .*\(2, 3\)"),
    ],
)
def test_spaces_that_no_policy_fits_are_refused_at_once(spaces, match, backend):
    with pytest.raises(TypeError, match=match):
        BatchSampler(partial(OtherSpaces, **spaces), 2, 1, backend=backend)


def test_closing_closes_the_environments():
    with BatchSampler(NAVIGATION, 2, 2) as sampler:
        policy = make_policy(sampler)
    sampler.close()  # again, without harm
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        sampler.sample(policy)


def test_the_slots_are_those_of_the_vector_environment():
    """Task i plays in slots iB to iB + B - 1."""
    with make_vec_env(NAVIGATION, 6) as envs:
        envs.reset_task([{"goal": [0.05, 0.0]}, {"goal": [0.5, 0.5]}])
        envs.reset(seed=0)
        *_, terminated, _, _ = envs.step(np.tile([0.5, 0.0], (6, 1)))
    assert terminated.tolist() == [True] * 3 + [False] * 3
