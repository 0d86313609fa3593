"""Numbers of records that belong to no bank.

They come from the clock, so that no counter makes transactions wait for one another, ascend within a process, and stay
below 2**53, where other languages begin to round.
"""

from __future__ import annotations

import random
import time
from threading import Lock

_SHARE = 4
"""Numbers of each microsecond, one of which a process takes."""
_lock = Lock()
_last = 0


def next_number() -> int:
    """Return a number that is larger than all before it in this process, and that hardly any other process has."""
    global _last
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1000 * _SHARE + random.randrange(_SHARE))
        return _last
