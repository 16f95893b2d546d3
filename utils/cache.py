"""What was built once is kept: a folder for each build, named by a hash of everything that goes into it.

One process fills a folder while others that want the same wait; a file `complete` in it says that all is there.
"""

import contextlib
import fcntl
import hashlib
import re
import shutil

from utils.diagnostics import explained
from utils.progress import waiting
from utils.toolchain import ToolchainError, cache_folder, short_path

__all__ = ["build_once", "file_name", "hashed"]


def hashed(*parts) -> str:
    """16 hexadecimal digits that change when any of `parts` does."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def file_name(name) -> str:
    """`name` as a part of a file's name: 'k<float, 4>' becomes 'k_float_4'."""
    return re.sub(r"\W+", "_", name).strip("_")[:40]


def build_once(folder, build, what, sources, expected_seconds, verbose=False):
    """Call `build()` to fill `folder`, a folder in the cache, unless that was done before, by whichever process.

    `build` leaves the commands that it ran in `commands.txt` and gives the compilers' log, empty where all went well.
    A log becomes a CompileError about `sources` (name to text). `what` is said to who waits.
    """
    __tracebackhide__ = True
    with _unwritable_explained():
        if not (folder / "complete").exists():
            with _sole_builder(folder):
                if not (folder / "complete").exists():
                    shutil.rmtree(folder, ignore_errors=True)  # what a killed build left
                    folder.mkdir(parents=True)
                    with waiting(what, expected=expected_seconds):
                        log = build()
                    if verbose:
                        print((folder / "commands.txt").read_text())
                    if log:
                        raise explained(log, sources, folder)
                    (folder / "complete").touch()
                    return
        if verbose:
            print(f"already built in {short_path(folder)}, by these commands:")
            print((folder / "commands.txt").read_text())


@contextlib.contextmanager
def _sole_builder(folder):
    """Of several processes that want one build, one works and the others wait. A dead process holds no lock."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _unwritable_explained():
    """A cache that cannot be written or is full becomes a ToolchainError that says what to do."""
    __tracebackhide__ = True
    try:
        yield
    except OSError as error:
        if error.filename is None or not str(error.filename).startswith(str(cache_folder())):
            raise
        advice = "free some space, or set CUDA_COURSE_CACHE to a folder that you may write"
        raise ToolchainError(f"cannot write the build to {error.filename} ({error.strerror}): {advice}") from None
