"""What the sampler returns: the episodes of N tasks, as tensors with the task axis first."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class BatchEpisodes(NamedTuple):
    """N tasks, B episodes each, up to T steps, padded to the same length.

    Being a tuple of tensors, it can be handed to ``torch.func.vmap`` as it is: the function then sees the
    same object of one task, without the leading N. Make one with ``create``, which clears the padding.
    """

    observations: Tensor  # (N, T, B, D)
    actions: Tensor  # (N, T, B, A), or integer (N, T, B)
    rewards: Tensor  # (N, T, B)
    mask: Tensor  # (N, T, B) bool, true where a step was really taken
    advantages: Tensor  # (N, T, B), zero until somebody estimates them

    @classmethod
    def create(
        cls,
        observations: Tensor,
        actions: Tensor,
        rewards: Tensor,
        mask: Tensor,
        advantages: Tensor | None = None,
    ) -> BatchEpisodes:
        """Episodes whose padded entries are zero, whatever they were.

        They are *replaced*, not multiplied by zero: NaN · 0 is NaN, and one NaN in a step that nobody took
        would spoil every gradient.
        """
        if mask.dtype != torch.bool:
            raise ValueError(f"the mask must be boolean, got {mask.dtype}")
        if mask.dim() != 3:
            raise ValueError(f"the mask must have the three axes (N, T, B), got shape {tuple(mask.shape)}")
        if not mask.any(-2).all():
            i, b = (~mask.any(-2)).nonzero()[0].tolist()
            raise ValueError(f"every episode needs a valid step, and episode {b} of task {i} has none")
        if advantages is None:
            advantages = torch.zeros_like(rewards)
        names = ("observations", "actions", "rewards", "advantages")
        for name, tensor in zip(names, (observations, actions, rewards, advantages), strict=True):
            if tensor.shape[: mask.dim()] != mask.shape:
                shapes = f"{tuple(mask.shape)}, got {tuple(tensor.shape)}"
                raise ValueError(f"{name} must start with the mask's shape {shapes}")
        return cls(
            replace_padding(observations, mask),
            replace_padding(actions, mask),
            replace_padding(rewards, mask),
            mask,
            replace_padding(advantages, mask),
        )

    @property
    def returns(self) -> Tensor:
        """The undiscounted return of every episode: (N, B)."""
        return self.rewards.sum(-2)

    @property
    def lengths(self) -> Tensor:
        """The number of steps of every episode: (N, B)."""
        return self.mask.sum(-2)

    def first_episodes(self, count: int) -> BatchEpisodes:
        """The first ``count`` episodes of every task, cut to their longest."""
        observations, actions, rewards, mask, advantages = self
        mask = mask[:, :, :count]
        steps = int(mask.any(0).any(-1).sum())
        return BatchEpisodes(
            *(x[:, :steps, :count].contiguous() for x in (observations, actions, rewards, mask, advantages))
        )


def replace_padding(tensor: Tensor, mask: Tensor) -> Tensor:
    """``tensor`` with zeros wherever ``mask`` is false; the mask covers its first axes."""
    mask = mask.reshape(mask.shape + (1,) * (tensor.dim() - mask.dim()))
    return torch.where(mask, tensor, torch.zeros((), dtype=tensor.dtype, device=tensor.device))
