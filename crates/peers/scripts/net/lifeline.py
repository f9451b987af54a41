"""Servers end with whoever started them: standard input closes, however that one went away."""

import os
import signal
import sys
import threading


def hold():
    """Ends this process as a signal would, when standard input ends."""

    def watch():
        sys.stdin.buffer.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def wait():
    """Returns when standard input ends."""
    sys.stdin.buffer.read()
