"""Errors that a chapter raises on purpose, shown without what depends on the machine."""

import re
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def expect(kind: type[BaseException]) -> Iterator[None]:
    """The block must raise `kind`; its name and message are printed in place of a traceback."""
    try:
        yield
    except kind as error:
        print(f"{type(error).__name__}: {without_machine(str(error))}")
    else:
        raise AssertionError(f"{kind.__name__} was not raised")


def without_machine(message: str) -> str:
    """A message that holds a traceback: no folders, no cells' file names, no markers below the lines.

    The markers differ from one Python to the next.
    """
    message = re.sub(
        r'File "(?:[^"]*/ipykernel_[^"]*|<ipython-input[^"]*|<dynamic-code>)"',
        'File "this notebook"',
        message,
    )
    message = re.sub(r'File "[^"]*/(?:site-packages|lib/python3\.\d+)/', 'File "', message)
    message = re.sub(r'File "[^"]*/(?=mamlrl_core/)', 'File "', message)
    return "\n".join(line for line in message.rstrip().split("\n") if not re.fullmatch(r"\s+[~^]+\s*", line))
