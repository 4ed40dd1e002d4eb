"""Episodes: padding is replaced whatever it held, and slices hold what they should."""

import re

import pytest
import torch

from mamlrl_core.episodes import BatchEpisodes, replace_padding

LENGTHS = torch.tensor([[4, 1, 3], [2, 2, 1]])  # (N, B) = (2, 3)
MASK = torch.arange(4)[None, :, None] < LENGTHS[:, None, :]  # (N, T, B)


def filled(value, discrete=False):
    """Episodes whose valid entries are random and whose padding is ``value``, before ``create``."""
    generator = torch.Generator().manual_seed(0)
    observations = torch.randn(2, 4, 3, 5, generator=generator)
    actions = torch.randint(1, 9, (2, 4, 3), generator=generator)
    if not discrete:
        actions = torch.randn(2, 4, 3, 2, generator=generator)
    rewards, advantages = torch.randn(2, 2, 4, 3, generator=generator)
    tensors = [observations, actions, rewards, advantages]
    for tensor in tensors:
        tensor[~MASK] = int(1e6) if tensor.dtype == torch.int64 else value
    return tensors


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("poison", [1e6, torch.nan, torch.inf])
def test_padding_is_replaced(poison, discrete):
    observations, actions, rewards, advantages = filled(poison, discrete)
    clean = BatchEpisodes.create(observations, actions, rewards, MASK, advantages)
    names = ("observations", "actions", "rewards", "advantages")
    for name, raw in zip(names, filled(poison, discrete), strict=True):
        tensor = getattr(clean, name)
        assert tensor.dtype == raw.dtype
        assert torch.equal(tensor[MASK], raw[MASK])
        assert not tensor[~MASK].any()


def test_returns_and_lengths():
    observations, actions, rewards, _ = filled(torch.nan)
    episodes = BatchEpisodes.create(observations, actions, rewards, MASK)
    assert torch.equal(episodes.lengths, LENGTHS)
    expected = [[rewards[i, : LENGTHS[i, b], b].sum() for b in range(3)] for i in range(2)]
    torch.testing.assert_close(episodes.returns, torch.tensor(expected))
    assert not episodes.advantages.any()


def test_values_in_the_valid_part_are_kept_even_if_they_are_not_finite():
    observations, actions, rewards, _ = filled(0.0)
    rewards[0, 0, 0] = torch.nan
    assert BatchEpisodes.create(observations, actions, rewards, MASK).rewards[0, 0, 0].isnan()


def test_first_episodes():
    episodes = BatchEpisodes.create(*filled(torch.nan)[:3], MASK)
    first = episodes.first_episodes(2)
    assert torch.equal(first.lengths, LENGTHS[:, :2])
    last = BatchEpisodes(*(tensor[:, :, 1:] for tensor in episodes)).first_episodes(1)  # lengths 1 and 2
    assert last.rewards.shape == (2, 2, 1)  # nobody takes the last two steps
    for whole, part in zip(episodes, last, strict=True):
        assert torch.equal(part, whole[:, :2, 1:2])
    for whole, part in zip(episodes, episodes.first_episodes(3), strict=True):
        assert torch.equal(part, whole)


def test_bad_arguments_are_named():
    observations, actions, rewards, advantages = filled(0.0)
    with pytest.raises(ValueError, match=r"boolean, got torch\.float32"):
        BatchEpisodes.create(observations, actions, rewards, MASK.float())
    for part in (MASK[0], MASK[..., 0], MASK[None]):
        shape = re.escape(str(tuple(part.shape)))
        with pytest.raises(ValueError, match=rf"three axes \(N, T, B\), got shape {shape}"):
            BatchEpisodes.create(observations, actions, rewards, part)
    with pytest.raises(ValueError, match=r"rewards .* \(2, 4, 3\), got \(4, 2, 3\)"):
        BatchEpisodes.create(observations, actions, rewards.transpose(0, 1), MASK)
    with pytest.raises(ValueError, match=r"advantages .* \(2, 4, 3\), got \(2, 4\)"):
        BatchEpisodes.create(observations, actions, rewards, MASK, advantages[..., 0])
    empty = MASK.clone()
    empty[1, :, 2] = False
    with pytest.raises(ValueError, match="episode 2 of task 1 has none"):
        BatchEpisodes.create(observations, actions, rewards, empty)


def test_replace_padding_covers_the_first_axes():
    x = torch.full((4, 3, 2, 2), torch.nan)
    x[MASK[0]] = 1.0
    assert torch.equal(replace_padding(x, MASK[0]).sum((-2, -1)), 4.0 * MASK[0])
