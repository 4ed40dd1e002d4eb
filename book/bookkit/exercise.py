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
        written = False
        try:
            result = answer(*arguments)
            written = result is not None and result is not ...
            result = _array(result)
        except NotImplementedError:
            pass
        except Exception as error:
            print(f"✗ {name}, case {number} of {len(cases)}: {type(error).__name__}: {error}")
            return
        if not written:
            waiting = "1 case is" if len(cases) == 1 else f"{len(cases)} cases are"
            print(f"… {name}: not written yet ({waiting} waiting)")
            return
        fault = _fault(result, _array(expected), rtol, atol)
        if fault:
            print(f"✗ {name}, case {number} of {len(cases)}: {fault}")
            return
    print(f"✓ {name}: {'its one case' if len(cases) == 1 else f'all {len(cases)} cases'}")


def _array(value) -> np.ndarray:
    """What NumPy makes of a value; of a tensor also if it belongs to a graph."""
    return np.asarray(value.detach() if hasattr(value, "detach") else value)


def _fault(result: np.ndarray, expected: np.ndarray, rtol: float, atol: float) -> str:
    if result.shape != expected.shape:
        return f"the shape is {result.shape}, expected {expected.shape}"
    if result.dtype.kind in "fciub" and expected.dtype.kind in "fciub":
        if np.allclose(result, expected, rtol=rtol, atol=atol, equal_nan=True):
            return ""
    elif (result == expected).all():
        return ""
    told = f"got {np.array2string(result, threshold=8)}, expected {np.array2string(expected, threshold=8)}"
    if "..." not in told or result.dtype.kind not in "fciub":
        return told
    close = np.isclose(result, expected, rtol=rtol, atol=atol, equal_nan=True)
    place = np.unravel_index(close.argmin(), close.shape)  # the first that is not
    return f"at [{', '.join(map(str, place))}]: got {result[place]:.6g}, expected {expected[place]:.6g}"
