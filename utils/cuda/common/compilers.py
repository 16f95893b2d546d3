"""Starting compilers so that a source whose templates or macros never end cannot take up the whole machine."""

import os
import re
import subprocess

__all__ = ["explained_limits", "started"]

#: Of processor time, for one compiler: with all of torch's headers it takes half a minute.
MOST_SECONDS = 600
#: The memory that it may take even on a small machine; with all of torch's headers it takes 2 GB.
LEAST_BYTES = 6 * 10**9
_ENDED = re.compile(
    r"out of memory|bad_alloc|virtual memory exhausted|terminated program|terminated by signal|CPU time limit|killed",
    re.IGNORECASE,
)


def most_bytes() -> int:
    """The memory that one compiler may take: half of the machine's."""
    return max(LEAST_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)


def started(command, **options) -> subprocess.Popen:
    """The running process of a compiler. It, and each that it starts, ends beyond `MOST_SECONDS` or `most_bytes()`."""
    limited = f'ulimit -t {MOST_SECONDS}; ulimit -v {most_bytes() // 1024} 2>/dev/null; exec "$0" "$@"'
    process = subprocess.Popen(["sh", "-c", limited, *map(str, command)], **options)
    process.args = command
    return process


def explained_limits(log, status) -> str:
    """The log of a compiler that ended with `status`, with a last line added if it reached a limit."""
    if status >= 0 and not _ENDED.search(log):
        return log
    said = f"a compiler was ended: it needs more than {most_bytes() / 1e9:.0f} GB or {MOST_SECONDS // 60} minutes"
    log = "" if log.strip() == "Killed" else f"{log}\n"
    return f"{log}{said}: do templates or macros of the source multiply without end?\n"
