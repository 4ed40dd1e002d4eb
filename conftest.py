"""For all tests, and for the chapters that pytest executes."""

import signal
import threading

# A job in the background of a shell script is started to ignore Ctrl-C, and every process that it starts
# inherits that. The tests of Ctrl-C need what a person at a terminal has.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)
