"""One gradient step in Bernoulli bandits, without a network: the numbers and drawings of an explorer."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from .explorer import Frame
from .plots import BLUE, GREY, VERMILION

ARMS, HORIZON = 5, 10
SHOWN = 3  # the bandit that is drawn
STARTS = {"no preference": 0.0, "fond of the first arm": 3.0, "sure of the first arm": 7.0}  # its logit


class Step(NamedTuple):
    """What one gradient step makes of N bandits."""

    means: np.ndarray  # (N, k): what the arms pay
    before: np.ndarray  # (k,): probabilities of the arms, the same for all
    gradient: np.ndarray  # (N, k): in the logits, downhill
    after: np.ndarray  # (N, k)

    @property
    def earned(self) -> np.ndarray:
        """Expected return of an episode after the step: (N,)."""
        return HORIZON * (self.after * self.means).sum(-1)


@cache
def _luck(num_tasks: int, pulls: int) -> tuple[np.ndarray, ...]:
    """Means (N, k), and two uniform numbers a pull, of which fewer pulls use the first: (N, pulls) each."""
    rng = np.random.default_rng(0)
    return rng.random((num_tasks, ARMS)), *rng.random((2, num_tasks, pulls))


def one_step(logits: Sequence[float], gain: float, pulls: int, num_tasks: int = 2000) -> Step:
    """Let a policy with these logits (k,) pull, and change them by ``gain`` times its policy gradient.

    The advantages are the rewards, normalised over a task's pulls. With a large ``gain`` the policy commits
    to one arm.
    """
    means, choice, luck = _luck(num_tasks, 400)
    logits = np.asarray(logits, dtype=float)
    before = softmax(logits)
    arms = (np.cumsum(before)[:-1] <= choice[:, :pulls, None]).sum(-1)  # (N, pulls)
    rewards = (luck[:, :pulls] < np.take_along_axis(means, arms, axis=1)).astype(float)
    centred = rewards - rewards.mean(1, keepdims=True)
    advantages = centred / (centred.std(1, keepdims=True) + 1e-8)
    pulled = np.eye(len(logits))[arms]  # (N, pulls, k)
    gradient = (advantages[..., None] * (pulled - before)).mean(1)  # of log pi, weighted by the advantage
    return Step(means, before, gradient, softmax(logits + gain * gradient, axis=-1))


def step_frame(start: str, episodes: int, gain: float) -> Frame:
    """One bandit before and after the step; in words, how it and the others then earn."""
    logits = np.zeros(ARMS)
    logits[0] = STARTS[start]
    step = one_step(logits, gain, HORIZON * episodes)
    means, after = step.means[SHOWN], step.after[SHOWN]

    def height(value: float) -> int:
        return round(220 * float(value))

    parts = [
        "<svg viewBox='0 0 600 330' role='img' aria-label='Five arms: what they pay, and how often they are"
        " pulled before and after the step' fill='none' stroke-width='4' stroke-linecap='round'>"
        f"<path stroke='{GREY}' stroke-width='2' opacity='.5' d='M20 290H580'/>"
    ]
    for arm in range(ARMS):
        x, old, new = 40 + 110 * arm, height(step.before[arm]), height(after[arm])
        pays = 290 - height(means[arm])
        parts.append(
            f"<path fill='{GREY}' opacity='.4' d='M{x} 290v{-old}h30v{old}z'/>"
            f"<path fill='{BLUE}' d='M{x + 36} 290v{-new}h44v{new}z'/>"
            f"<path stroke='{VERMILION}' stroke-dasharray='9 7' d='M{x - 8} {pays}h96'/>"
        )
    parts.append(f"<g fill='{GREY}' font-size='21'>")
    parts += [f"<text x='{77 + 110 * arm}' y='318'>{arm + 1}</text>" for arm in range(ARMS)]
    parts.append("<text x='20' y='30'>grey: before · blue: after · dashed: what it pays</text>")
    best = HORIZON * step.means.max(-1)
    return Frame(
        "".join([*parts, "</g></svg>"]),
        f"After the step this bandit earns {step.earned[SHOWN]:.2f} an episode; its best arm, "
        f"{best[SHOWN]:.2f}. "
        f"Mean of {len(best)} bandits: {step.earned.mean():.2f}; best arms, {best.mean():.2f}.",
    )
