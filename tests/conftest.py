"""What holds for all tests."""

from __future__ import annotations

import signal

# Started in the background, a shell's child ignores Ctrl-C for good, and so would everything tests send it to.
signal.signal(signal.SIGINT, signal.default_int_handler)
