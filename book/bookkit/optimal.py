"""What bandits and MDPs let one compare with: the best that can be done, and learners that have a memory.

N tasks are played side by side, as arrays whose first axis is the task. Returns are undiscounted.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch.func import vmap

from mamlrl_core.config import Config
from mamlrl_core.envs.bandit import BanditEnv
from mamlrl_core.envs.base import DynamicsEnv, Task, stack_tasks
from mamlrl_core.envs.tabular_mdp import TabularMDPEnv
from mamlrl_core.episodes import BatchEpisodes
from mamlrl_core.policies import MLPPolicy
from mamlrl_core.seeding import Purpose, derive_seed
from mamlrl_core.training import make_learner, make_sampler

Chooser = Callable[[np.ndarray, np.ndarray], np.ndarray]  # pulls and sums of rewards, (N, k) -> arms (N,)


def luck(family: DynamicsEnv, root: int, num_tasks: int, episodes: int, phase: int = 0) -> np.ndarray:
    """The noise that a sampler with seed ``root`` plays ``phase`` on: (N, B, T, ...).

    Whoever is handed the same noise has had the same luck.
    """

    def of(task: int, episode: int) -> np.ndarray:
        rng = np.random.default_rng(derive_seed(root, Purpose.ENVIRONMENT, 0, phase, task, episode))
        family.draw_start(rng)
        return family.draw_noise(rng)

    return np.array([[of(i, b) for b in range(episodes)] for i in range(num_tasks)])


class Stage(NamedTuple):
    """A policy in N tasks after k steps of adaptation, as numbers: no noise is left but that of the steps."""

    table: np.ndarray  # (N, X, A): probability of every action in every state; a bandit has one state
    episodes: BatchEpisodes  # B episodes of each task, played by it


def held_out(config: Config, num_tasks: int = 400, seed: int = 1) -> tuple[int, Task]:
    """The seed of the sampler, and the tasks, stacked, of an evaluation with ``seed``."""
    root = derive_seed(seed, Purpose.EVALUATION)
    with make_sampler(config, num_tasks=num_tasks, episodes_per_task=1, seed=root) as sampler:
        return root, stack_tasks(sampler.sample_tasks(0))


def adapt_tables(
    config: Config,
    policy: MLPPolicy,
    num_tasks: int = 400,
    episodes: int | None = None,
    step_sizes: Sequence[float] = (),
    seed: int = 1,
) -> tuple[int, Task, list[Stage]]:
    """Adapt ``policy`` to tasks that no training run has seen: those of an evaluation with this seed.

    episodes: B, that of ``config`` if absent. step_sizes: one for every step; a single step of the size of
    ``config`` if empty. Returns the seed of the sampler, the tasks, stacked, and what was after 0, 1, ...
    steps.
    """
    B, root = episodes or config.episodes_per_task, derive_seed(seed, Purpose.EVALUATION)
    learner, params, stages = make_learner(config, policy), None, []
    with make_sampler(config, num_tasks=num_tasks, episodes_per_task=B, seed=root) as sampler:
        tasks = sampler.sample_tasks(0)
        sampler.reset_task(tasks)
        states = torch.eye(sampler.obs_dim)  # one-hot, or the constant 1
        for k, alpha in enumerate([*(step_sizes or [config.step_size(0)]), None]):
            played = sampler.sample(policy, params, phase=k)
            if params is None:
                pi = policy.apply(policy.params(), states.expand(num_tasks, -1, -1))
            else:
                pi = vmap(policy.apply, in_dims=(0, None))(params, states)
            table = pi.logits.double().softmax(-1).numpy()
            stages.append(Stage(table, played))
            if alpha is not None:
                params = learner.adapt_all(learner.estimate_advantages(played), params, alpha)
    return root, stack_tasks(tasks), stages


# ------------------------------------------------------------------------------------------------- bandits


def play_bandit(family: BanditEnv, means: np.ndarray, noise: np.ndarray, choose: Chooser):
    """Pull after pull, with a memory. means: (N, k). noise: (N, n). Returns arms and rewards, (N, n)."""
    rows = np.arange(len(means))
    pulls, sums = np.zeros(means.shape), np.zeros(means.shape)
    arms, rewards = np.zeros(noise.shape, dtype=int), np.zeros(noise.shape)
    for t in range(noise.shape[1]):
        arms[:, t] = arm = choose(pulls, sums)
        rewards[:, t] = reward = family.reward(means[rows, arm], noise[:, t])
        pulls[rows, arm] += 1
        sums[rows, arm] += reward
    return arms, rewards


def thompson(rng: np.random.Generator) -> Chooser:
    """Thompson sampling for Bernoulli arms: guess every mean from its posterior, pull the best guess."""
    return lambda pulls, sums: rng.beta(1 + sums, 1 + pulls - sums).argmax(-1)


def ucb1(pulls: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """UCB1 (Auer et al. 2002): every arm once, then the largest mean plus sqrt(2 log t / pulls)."""
    total = np.maximum(pulls.sum(-1, keepdims=True), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = sums / pulls + np.sqrt(2 * np.log(total) / pulls)
    return np.where(pulls == 0, np.inf, bound).argmax(-1)


@cache
def bayes_value(arms: tuple[tuple[int, int], ...], pulls: int) -> float:
    """The largest expected sum of ``pulls`` further rewards of Bernoulli arms with uniform priors.

    arms: the (wins, losses) that each has shown. Exact, by dynamic programming over what may be seen; arms
    are alike, so their order does not matter.
    """
    if pulls == 0:
        return 0.0
    best = 0.0
    for i, (wins, losses) in enumerate(arms):
        if arms[i] in arms[:i]:
            continue
        p = (wins + 1) / (wins + losses + 2)
        won, lost = (
            tuple(sorted((*arms[:i], seen, *arms[i + 1 :])))
            for seen in ((wins + 1, losses), (wins, losses + 1))
        )
        value = p * (1 + bayes_value(won, pulls - 1)) + (1 - p) * bayes_value(lost, pulls - 1)
        best = max(best, value)
    return best


# ---------------------------------------------------------------------------------------------------- MDPs


def optimal_values(transitions: np.ndarray, rewards: np.ndarray, horizon: int):
    """Value iteration over a finite horizon, backwards in time.

    transitions: (..., X, A, X). rewards: (..., X, A). Returns the values with t steps played, t = 0 ... T,
    (..., T + 1, X), and the best actions, (..., T, X).
    """
    value = np.zeros(rewards.shape[:-1])
    values, actions = [value], []
    for _ in range(horizon):
        q = rewards + np.einsum("...xay,...y->...xa", transitions, value)
        value = q.max(-1)
        values.append(value)
        actions.append(q.argmax(-1))
    return np.stack(values[::-1], -2), np.stack(actions[::-1], -2)


def policy_values(
    transitions: np.ndarray, rewards: np.ndarray, policy: np.ndarray, horizon: int
) -> np.ndarray:
    """Expected return of a policy from every state: (..., X).

    policy: probabilities (..., X, A), the same at all times; or actions (..., T, X), whole numbers.
    """
    per_step = np.issubdtype(policy.dtype, np.integer)
    value = np.zeros(rewards.shape[:-1])
    for t in reversed(range(horizon)):
        pi = np.eye(rewards.shape[-1])[policy[..., t, :]] if per_step else policy
        q = rewards + np.einsum("...xay,...y->...xa", transitions, value)
        value = (pi * q).sum(-1)
    return value


def stationary_policy(
    transitions: np.ndarray, rewards: np.ndarray, horizon: int, sweeps: int = 4
) -> np.ndarray:
    """A good policy that does not look at the clock, by improving one state at a time: (N, X), actions.

    It starts from what is best in the middle of an episode. A local optimum of the return from state 0, and
    so a lower bound of the best.
    """
    N, X, A = rewards.shape
    actions = optimal_values(transitions, rewards, horizon)[1][:, horizon // 2]  # (N, X)
    rows = np.arange(N)
    for _ in range(sweeps):
        for x in range(X):
            tried = np.repeat(actions[None], A, axis=0)  # (A, N, X)
            tried[:, :, x] = np.arange(A)[:, None]
            returns = policy_values(transitions, rewards, np.eye(A)[tried], horizon)[..., 0]  # (A, N)
            actions = tried[returns.argmax(0), rows]
    return actions


class Beliefs:
    """What is known of N tabular MDPs: flat Dirichlet and normal priors, updated by experience.

    The family's own distribution is the prior: mean rewards are N(1, 1), rewards have variance 1.
    """

    def __init__(self, num_tasks: int, num_states: int, num_actions: int):
        pairs = (num_tasks, num_states, num_actions)
        self.next = np.ones((*pairs, num_states))  # Dirichlet counts
        self.pulls, self.sums = np.ones(pairs), np.ones(pairs)  # the prior is one reward of 1

    def update(self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        """Learn from episodes played in order of time. All (N, ..., T); the state after the last step is not
        known, and not used."""
        shape = (len(states), -1, states.shape[-1])
        s, a, r = (x.reshape(shape) for x in (states, actions, rewards))
        i = np.broadcast_to(np.arange(len(s))[:, None, None], s.shape)
        np.add.at(self.pulls, (i, s, a), 1)
        np.add.at(self.sums, (i, s, a), r)
        np.add.at(self.next, (i[..., :-1], s[..., :-1], a[..., :-1], s[..., 1:]), 1)

    def mean(self) -> tuple[np.ndarray, np.ndarray]:
        """The expected transitions (N, X, A, X) and rewards (N, X, A)."""
        return self.next / self.next.sum(-1, keepdims=True), self.sums / self.pulls

    def sample(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A guess: transitions and rewards drawn from the posterior."""
        gamma = rng.standard_gamma(self.next)  # normalised, a draw from a Dirichlet
        noise = rng.standard_normal(self.pulls.shape) / np.sqrt(self.pulls)
        return gamma / gamma.sum(-1, keepdims=True), self.sums / self.pulls + noise


def play_episode(family: TabularMDPEnv, task: Task, noise: np.ndarray, actions: np.ndarray):
    """One episode of N tasks by tables of actions (N, T, X). task: stacked. noise: (N, T, 2).

    Returns states, actions and rewards, all (N, T).
    """
    rows, state, played = np.arange(len(noise)), family.initial_state(task, np.zeros(0)), []
    for t in range(family.horizon):
        action = actions[rows, t, state]
        after, reward, _ = family.transition(state, action, noise[:, t], task)
        played.append((state, action, reward))
        state = after
    return tuple(np.stack(column, axis=1) for column in zip(*played, strict=True))


def psrl(family: TabularMDPEnv, task: Task, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Posterior sampling: every episode, guess an MDP and play what is best in it. noise: (N, B, T, 2).

    Returns the rewards, (N, B, T). Source: Osband, Russo and Van Roy 2013.
    """
    beliefs, rewards = Beliefs(*task["rewards"].shape), []
    for b in range(noise.shape[1]):
        _, actions = optimal_values(*beliefs.sample(rng), family.horizon)
        episode = play_episode(family, task, noise[:, b], actions)
        beliefs.update(*episode)
        rewards.append(episode[-1])
    return np.stack(rewards, axis=1)
