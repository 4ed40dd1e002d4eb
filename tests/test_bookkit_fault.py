"""Errors raised on purpose: told when they come, a failure when they do not."""

import pytest

from bookkit import expect

MESSAGE = '''env worker 0 raised an exception:

Traceback (most recent call last):
  File "/home/someone/book/mamlrl_core/envs/env_worker.py", line 60, in run
    self.obey()
    ~~~~~~~~~^^
  File "/usr/lib/python3.12/queue.py", line 3, in get
  File "/home/someone/.venv/lib/python3.12/site-packages/gymnasium/core.py", line 5, in step
  File "/tmp/ipykernel_123/456.py", line 7, in step
  File "<dynamic-code>", line 7, in step
KeyError: 'gone'
'''


def test_the_message_is_printed_without_the_machine(capsys):
    with expect(RuntimeError):
        raise RuntimeError(MESSAGE)
    assert capsys.readouterr().out == '''RuntimeError: env worker 0 raised an exception:

Traceback (most recent call last):
  File "mamlrl_core/envs/env_worker.py", line 60, in run
    self.obey()
  File "queue.py", line 3, in get
  File "gymnasium/core.py", line 5, in step
  File "this notebook", line 7, in step
  File "this notebook", line 7, in step
KeyError: 'gone'
'''


def test_a_block_that_does_not_raise_fails():
    with pytest.raises(AssertionError, match="ValueError was not raised"), expect(ValueError):
        pass


def test_another_error_passes_through():
    with pytest.raises(KeyError), expect(ValueError):
        raise KeyError("x")
