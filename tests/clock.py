"""Times that a busy machine does not change, for tests: CPU seconds, and how busy the machine is at the moment."""

import os
import time

__all__ = ["cpu_seconds", "slowdown"]


def cpu_seconds() -> float:
    """CPU seconds that this process and those of its children that have ended have used so far."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def slowdown(seconds=0.2) -> float:
    """How many times longer work takes at the moment than on an idle machine; at least 1.

    Measured: how long a thread has to run until it has had `seconds` of CPU time.
    """
    begun, used = time.perf_counter(), time.thread_time()
    while time.thread_time() - used < seconds:
        pass
    return max(1.0, (time.perf_counter() - begun) / seconds)
