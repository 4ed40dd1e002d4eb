"""Graders: an exercise's cell calls `check`, which tries the reader's function on a few cases."""

from collections.abc import Callable, Sequence

import numpy as np


def check(
    answer: Callable, cases: Sequence[tuple[tuple, object]], *, rtol: float = 1e-6, atol: float = 1e-8
) -> None:
    """Print a verdict on `answer`.

    cases: pairs (arguments, expected result). Numbers, arrays and tensors are compared within `rtol` and
    `atol`, shapes included. A function that returns None or `...` counts as not written yet. Only the first
    mismatch is told.
    """
    name = getattr(answer, "__name__", "the answer")
    for number, (arguments, expected) in enumerate(cases, 1):
        try:
            result = answer(*arguments)
        except NotImplementedError:
            result = None
        except Exception as error:
            print(f"✗ {name}, case {number} of {len(cases)}: {type(error).__name__}: {error}")
            return
        if result is None or result is ...:
            waiting = "1 case is" if len(cases) == 1 else f"{len(cases)} cases are"
            print(f"… {name}: not written yet ({waiting} waiting)")
            return
        fault = _fault(np.asarray(result), np.asarray(expected), rtol, atol)
        if fault:
            print(f"✗ {name}, case {number} of {len(cases)}: {fault}")
            return
    print(f"✓ {name}: {'its one case' if len(cases) == 1 else f'all {len(cases)} cases'}")


def _fault(result: np.ndarray, expected: np.ndarray, rtol: float, atol: float) -> str:
    if result.shape != expected.shape:
        return f"the shape is {result.shape}, expected {expected.shape}"
    if result.dtype.kind in "fciub" and expected.dtype.kind in "fciub":
        if np.allclose(result, expected, rtol=rtol, atol=atol, equal_nan=True):
            return ""
    elif (result == expected).all():
        return ""
    return f"got {np.array2string(result, threshold=8)}, expected {np.array2string(expected, threshold=8)}"
