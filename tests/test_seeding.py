"""Streams have names, and no two names share a stream."""

import numpy as np
import pytest

from mamlrl_core.seeding import Purpose, derive_seed, generator


def test_the_stream_is_the_one_that_numpy_spawns():
    for seed in (0, 1, 2**40):
        for index, child in enumerate(np.random.SeedSequence(seed).spawn(3)):
            words = child.generate_state(4).tolist()
            assert derive_seed(seed, index) == sum(word << 32 * place for place, word in enumerate(words))


def test_a_stream_can_be_opened_again():
    assert generator(3, Purpose.ACTIONS, 1).random() == generator(3, Purpose.ACTIONS, 1).random()
    assert generator(3, 1).random() == np.random.default_rng(derive_seed(3, 1)).random()


def test_neighbouring_seeds_and_keys_share_no_stream():
    names = [(seed, *key) for seed in range(20) for a in range(6) for b in range(6) for key in ((a,), (a, b))]
    names = list(dict.fromkeys(names))
    assert len({derive_seed(*name) for name in names}) == len(names)
    assert len({generator(*name).random() for name in names}) == len(names)


def test_old_seeds_keep_their_meaning():
    assert [Purpose(place).name for place in range(4)] == ["POLICY_INIT", "TASKS", "ENVIRONMENT", "ACTIONS"]
    assert derive_seed(0, 0) == 269030779132393511268617936674762503185


@pytest.mark.parametrize("name", [(-1,), (0, -2)])
def test_negative_numbers_are_refused(name):
    with pytest.raises(ValueError, match=f"{min(name)}"):
        derive_seed(*name)
