"""One seed, many independent random streams.

Every random number in this package comes from a stream that is named by what it is for. The name is a
*spawn key* of NumPy's ``SeedSequence``: streams with different keys are independent however similar the
keys are, and a stream can be opened again at any time from its name alone. A resumed run therefore needs
no saved generator state, and an episode is the same whichever process happens to play it.
"""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """The first entry of every spawn key. New ones go at the end, so that old seeds keep their meaning."""

    POLICY_INIT = 0
    TASKS = 1
    ENVIRONMENT = 2
    ACTIONS = 3
    EVALUATION = 4  # root of the streams of an evaluation, so that its tasks are held out


def derive_seed(seed: int, *key: int) -> int:
    """The 128-bit seed of the stream called ``key`` under ``seed``.

    The result is a plain non-negative integer, so that it can be handed to anything that takes a seed:
    ``env.reset(seed=...)``, a pipe to a worker, ``numpy.random.default_rng``.

    >>> derive_seed(0, Purpose.TASKS, 7) == derive_seed(0, Purpose.TASKS, 7)
    True
    >>> derive_seed(0, 1) == derive_seed(1, 0)
    False
    """
    if seed < 0 or min(key, default=0) < 0:
        raise ValueError(f"a seed and its key are non-negative integers, got seed={seed}, key={key}")
    words = np.random.SeedSequence(seed, spawn_key=key).generate_state(4)  # 4 words of 32 bits
    return int.from_bytes(words.astype("<u4").tobytes(), "little")


def generator(seed: int, *key: int) -> np.random.Generator:
    """A fresh generator at the start of the stream called ``key`` under ``seed``."""
    return np.random.default_rng(derive_seed(seed, *key))
