"""The cache of builds: a folder for each build, named by a hash of everything that goes into it.

A build is made in a separate folder, `name.number`, and moved into place when it is complete, so no process ever loads
half of one, and a compiler that outlives a killed process writes where no process looks. If several processes want the
same build, one works and the others wait, using a lock that the system releases when a process dies.

The builds together take at most $CUDA_COURSE_CACHE_LIMIT gigabytes (2 if not set): the least recently used go first.
`python -m utils.manage.cache` shows what is in the cache; with `--clear` it removes it.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import time
from pathlib import Path
from typing import NamedTuple

from utils.cuda.common.sealed import check_owner, is_whole, make_folder, seal
from utils.cuda.common.toolchain import cache_folder
from utils.ground.errors import ToolchainError
from utils.ground.progress import waiting
from utils.ground.system import short_path

__all__ = ["build_once", "clear", "contents", "file_name", "hashed", "hashed_files", "print_table", "show_warnings"]
__all__ += ["sole_builder"]

LIMIT = 2.0  # gigabytes
IN_USE = 3600  # seconds after its last use during which a build is never removed: a process may have just loaded it
PAUSE = 600  # seconds between two checks of the total size

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DISK_FULL = re.compile(r"^.*(?:No space left on device|Disk quota exceeded|File size limit exceeded).*$", re.MULTILINE)


def hashed(*parts) -> str:
    """16 hexadecimal digits that change when any of `parts` does."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def hashed_files(folder, suffixes) -> str:
    """The same for the names and contents of the files with these suffixes in `folder` and the folders in it."""
    found, folders, named = hashlib.sha256(), [os.fspath(folder)], len(os.fspath(folder))
    while folders:
        with os.scandir(folders.pop()) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
        for entry in inside:
            if entry.is_dir():
                folders.append(entry.path)
            elif entry.name.endswith(suffixes):
                found.update(f"{entry.path[named:]}\0".encode())
                found.update(contents(entry.path))
    return found.hexdigest()[:16]


def contents(path) -> bytes:
    """What a file contains: each new process reads some 300 of them, in half the time that `open` takes."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, os.fstat(file).st_size)
    finally:
        os.close(file)


def file_name(name) -> str:
    """`name` as a part of a file's name: 'k<float, 4>' becomes 'k_float_4'."""
    return re.sub(r"\W+", "_", name).strip("_")[:40]


# ---- building -------------------------------------------------------------------------------------------------------


def build_once(folder, build, what, sources, expected_seconds, verbose=False, needs=()):
    """Have `build` fill `folder`, a folder in the cache, unless this or another process has already done so.

    A build whose files are not as they were is made again, and so is one of which a library that it `needs` (a path
    elsewhere in the cache) is missing or damaged: `build` makes that again too.

    `build(place)` fills the folder `place`, which becomes `folder` on success. It writes the commands that it ran to
    `commands.txt` and returns the compilers' log, empty on success. A log becomes a CompileError about `sources` (name
    to text). What compilers print although they succeed goes to `warnings.log`, and becomes CompileWarnings, now and
    whenever the build is used. `what` is shown if it takes long.

    Raises ToolchainError if the cache cannot be written, if the disk is full, or if another user could have changed
    what is in the cache (sealed.py).
    """
    __tracebackhide__ = True
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        wrong = f"the path of the cache of builds, {os.fsencode(cache_folder())}, is not UTF-8"
        raise ToolchainError(wrong, "export CUDA_COURSE_CACHE=~/my-cuda-course") from None
    for place in (folder, cache_folder() / "runtime"):
        check_owner(cache_folder(), place)
    with _unwritable_explained():
        if not _used(folder, needs):
            limit = _limit()
            with sole_builder(folder):
                if built := not _used(folder, needs):
                    with waiting(what, expected=expected_seconds):
                        log = _filled(folder, build, sources)
                    if verbose:
                        print((folder / "commands.txt").read_text())
                    if log:
                        from utils.cuda.common.diagnostics import explained  # here: only a failed build needs it

                        raise explained(log, sources, folder)
            if built:
                _keep_within(limit)
                verbose = False
        show_warnings(folder)
        if verbose:
            print(f"already built in {short_path(folder)}, by these commands:")
            print((folder / "commands.txt").read_text())


def show_warnings(folder):
    """Show the CompileWarnings of a build. Nearly all builds have none, and loading one must be quick."""
    __tracebackhide__ = True
    if (folder / "warnings.json").exists():
        from utils.cuda.common import diagnostics

        diagnostics.show_warnings(folder)


def _filled(folder, build, sources) -> str:
    """Build beside `folder` and move the result there; returns the compilers' log."""
    __tracebackhide__ = True
    for left in folder.parent.glob(f"{folder.name}.*[0-9]"):  # by a process that was killed
        _remove_moved(left, folder)
    place = folder.with_name(f"{folder.name}.{time.time_ns()}")
    place.mkdir(mode=0o755)
    try:
        log = build(place)
        if full := _DISK_FULL.search(log):
            raise OSError(errno.ENOSPC, full[0])
        commands = place / "commands.txt"
        commands.write_text(commands.read_text().replace(place.name, folder.name))
        if not log:
            from utils.cuda.common.diagnostics import note_warnings

            note_warnings(place, sources)
            for unneeded in place.glob("*.o"):
                unneeded.unlink()
            seal(place)
        _remove_whatever(folder)  # a failed build, or one that a disk damaged
        place.rename(folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return log


def _remove_moved(path, build):
    """Remove a folder of `build` in one step. A compiler that outlived its process finds no folder to write to."""
    gone = build.with_name(f"{build.name}.{time.time_ns()}")
    path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def _remove_whatever(path):
    """Remove a folder, a file or a link; nothing happens if there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _used(folder, needs) -> bool:
    """Whether the build exists, undamaged. Records the time of use, by which the least recently used are found."""
    if not (is_whole(folder) and all(map(is_whole, needs))):
        return False
    with contextlib.suppress(OSError):  # a cache that may be read but not written
        os.utime(folder / "complete")
    return True


@contextlib.contextmanager
def sole_builder(folder, wait=True):
    """If several processes want one build, one works and the others wait. A dead process holds no lock.

    `folder` may also be the path of a library that is alone. Without `wait`, the others raise BlockingIOError.
    """
    path = folder.with_name(f"{folder.name}.lock")
    make_folder(folder.parent)
    while True:
        with open(path, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _same_file(lock, path):
                continue  # its holder has removed it, and another process may hold the new one
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _same_file(opened, path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened.fileno()), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _unwritable_explained():
    """A cache that cannot be written or is full becomes a ToolchainError with what to do about it."""
    __tracebackhide__ = True
    try:
        yield
    except OSError as error:
        place = short_path(error.filename or cache_folder())
        if error.errno in _FULL:
            raise ToolchainError(
                f"the build does not fit on the disk ({error.strerror})",
                f"free some space, for instance by `python -m utils.manage.cache --clear`, or set CUDA_COURSE_CACHE to "
                f"a folder on another disk, instead of {short_path(cache_folder())}",
            ) from None
        failed, cache = Path(error.filename or "/"), cache_folder()
        if error.filename is None or not (failed.is_relative_to(cache) or cache.is_relative_to(failed)):
            raise
        raise ToolchainError(f"cannot write the build to {place} ({error.strerror})", _unwritable_fix(error)) from None


def _unwritable_fix(error) -> str:
    """The command that makes the cache writable, or replaces it."""
    another = "export CUDA_COURSE_CACHE=~/my-cuda-course, or any folder that you may write to"
    if error.errno == errno.EROFS:
        return f"{another}: the file system of this one is read-only"
    failed = Path(error.filename)
    blocker = next(path for path in (failed, *failed.absolute().parents) if os.path.exists(path))
    if not os.path.isdir(blocker):
        return f"{another}: {short_path(blocker)} is not a folder"
    if error.errno in (errno.EACCES, errno.EPERM) and blocker.stat().st_uid == os.geteuid():
        return f"chmod u+rwx {short_path(blocker)}; or {another}"
    return another


# ---- the limit ------------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """Something in the cache: a build, the remains of one, or a part of the engine's runtime."""

    path: Path
    kind: str  # the folder it is in: 'cpu', 'cuda', 'runtime'
    used: float  # when it was last used or changed, in time.time() seconds
    size: int  # bytes


def _limit() -> float:
    """How many bytes the cache may hold. Raises ToolchainError if the environment variable is not a number."""
    __tracebackhide__ = True
    setting = os.environ.get("CUDA_COURSE_CACHE_LIMIT") or LIMIT
    try:
        limit = float(setting)
    except ValueError:
        limit = -1
    if not limit >= 0:
        wrong = f"CUDA_COURSE_CACHE_LIMIT={setting!r} is not a number of gigabytes, such as 2 or 0.5"
        raise ToolchainError(wrong, "unset CUDA_COURSE_CACHE_LIMIT")
    return limit * 1e9


def _entries() -> list[Entry]:
    """Everything in the cache, least recently used first. Other processes may add and remove entries meanwhile."""
    found = []
    for kind in (cache_folder() / name for name in ("cpu", "cuda", "runtime")):
        for path in filter(_is_ours, _children(kind) if kind.is_dir() and not kind.is_symlink() else ()):
            files = [f for f in path.rglob("*") if not f.is_dir()] if path.is_dir() else [path]
            sizes = [size for f in files if (size := _stat(f, "st_size")) is not None]
            used = _stat(path / "complete", "st_mtime") or _stat(path, "st_mtime")
            if used is not None:
                found.append(Entry(path, kind.name, used, sum(sizes)))
    return sorted(found, key=lambda entry: entry.used)


def _is_ours(path) -> bool:
    """Whether the course made what is in this place: CUDA_COURSE_CACHE may name a folder that has something else, too,
    and what is not ours is never removed."""
    if path.parent.name == "runtime" and re.match(r"libcuda_on_cpu|names-|\w+_[0-9a-f]{16}\b", path.name):
        return True
    if path.suffix == ".lock":
        return _stat(path, "st_size") == 0
    killed = re.search(r"\.\d{10,}$", path.name)
    return bool(killed) or any((path / name).exists() for name in ("complete", "commands.txt", "build.log"))


def _children(folder) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _stat(path, field):
    try:
        return getattr(path.lstat(), field)
    except OSError:
        return None


def _keep_within(limit):
    """Remove the least recently used until the cache holds at most `limit` bytes. Checks only now and then."""
    looked = cache_folder() / "looked"
    if time.time() - (_stat(looked, "st_mtime") or 0) < PAUSE:
        return
    looked.touch()
    _remove(limit, before=time.time() - IN_USE)


def _remove(limit, before) -> list[Entry]:
    """Remove entries last used `before` that time, until the rest is within `limit`, and the remains of killed builds.

    Returns what was removed. What a process is building is never removed. A part of the runtime is removed once no
    build linked with it is left.
    """
    entries = _entries()
    excess = sum(entry.size for entry in entries) - limit
    removed = []
    for entry in entries:
        wanted = excess <= 0 and not re.search(r"\.(?:\d+|lock)$", entry.path.name)
        if entry.kind != "runtime" and entry.used < before and not wanted and _removed(entry, before):
            excess -= entry.size
            removed.append(entry)
    libraries = [entry for entry in entries if entry.kind == "runtime" and entry.used < before]
    needed = _linked_libraries() if excess > 0 and libraries else ()
    for entry in libraries:
        if excess > 0 and needed is not None and entry.path.name not in needed:
            shutil.rmtree(entry.path, ignore_errors=True) if entry.path.is_dir() else entry.path.unlink(missing_ok=True)
            excess -= entry.size
            removed.append(entry)
    return removed


def _removed(entry, before) -> bool:
    """Remove a build in one step, unless a process is working on it or has used it since."""
    build = entry.path.with_name(entry.path.name.partition(".")[0])
    try:
        with sole_builder(build, wait=False):
            if entry.path.is_dir() and (_stat(entry.path / "complete", "st_mtime") or 0) < before:
                _remove_moved(entry.path, build)
    except OSError:  # a process is building it, or it cannot be moved
        return False
    return not entry.path.exists()


def _linked_libraries() -> set[str] | None:
    """The libraries that the builds were linked with. None while a build is under way: it may need any of them."""
    if any(cache_folder().glob("*/*.lock")):
        return None
    found = set()
    for path in cache_folder().glob("cpu/*/*.so"):
        with contextlib.suppress(OSError):
            found |= set(re.findall(rb"lib[\w-]+\.so", path.read_bytes()))
    return {name.decode() for name in found}


# ---- the command ----------------------------------------------------------------------------------------------------


def print_table(stream=None):
    """Print how much of each kind there is, and when the least recently used build was last used."""
    entries = [entry for entry in _entries() if entry.path.suffix != ".lock"]
    print(f"{short_path(cache_folder())}: {_size(entries)} of at most {_limit() / 1e9:g} GB", file=stream)
    if entries:
        print(f"{'kind':10}{'number':>8}{'size':>12}   unused longest", file=stream)
    for kind in sorted({entry.kind for entry in entries}):
        those = [entry for entry in entries if entry.kind == kind]
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(those[0].used))
        print(f"{kind:10}{len(those):8}{_size(those):>12}   since {since}", file=stream)


def clear(stream=None):
    """Remove all builds except those a process is making right now, and report how much that was."""
    removed = [entry for entry in _remove(0, before=float("inf")) if entry.path.suffix != ".lock"]
    print(f"removed {len(removed)} from {short_path(cache_folder())}: {_size(removed)}", file=stream)
    left = [entry for entry in _entries() if entry.path.suffix != ".lock"]
    if left:
        print(f"left alone, because a process is building: {', '.join(short_path(e.path) for e in left)}", file=stream)


def _size(entries) -> str:
    return f"{sum(entry.size for entry in entries) / 1e6:,.1f} MB"
