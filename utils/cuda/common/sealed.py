"""What is loaded from the cache is whole, and nobody else could have changed it.

A finished build's folder has a file `complete`, which lists the folder's other files with their checksums. A library
that is alone carries its checksum behind its last byte: loaders and linkers ignore what follows an ELF file.
"""

import os
import shutil
import stat
import time
import zlib
from pathlib import Path

from utils.ground.errors import ToolchainError
from utils.ground.system import short_path

__all__ = ["check_owner", "is_whole", "make_folder", "put", "seal"]

_MARK = b"cuda-course "  # before the checksum at the end of a library


def seal(path):
    """Record the contents of a finished build's folder, or of a library that is alone."""
    if path.is_dir():
        for file in path.iterdir():
            if not file.is_symlink():
                file.chmod(file.stat().st_mode & ~(stat.S_IWGRP | stat.S_IWOTH))
        names = sorted(p.name for p in path.iterdir() if p.is_file() and not p.is_symlink() and p.name != "complete")
        lines = [f"{_checksum((path / name).read_bytes())} {name}\n" for name in names]
        (path / "complete").write_text("".join([*lines, f"{len(lines)} files\n"]))
        (path / "complete").chmod(0o644)
    else:
        with open(path, "r+b") as library:
            contents = library.read()
            library.write(_MARK + _checksum(contents).encode())


def put(library, place):
    """Seal a library and move it to its place in one step: no process ever loads half of it."""
    seal(library)
    if place.is_dir():
        shutil.rmtree(place)
    os.replace(library, place)


_found_whole = {}  # by path: what was listed, and what the file system said of the files that were read then


def is_whole(path) -> bool:
    """Whether a folder or a library is as it was when it was sealed: no file is missing, truncated or changed.

    The first time, every byte is read, in about 1 ms per 4 MB. Later that takes a change that the file system knows of.
    """
    try:
        listed = (path / "complete").read_bytes() if path.is_dir() else None
        files = [path] if listed is None else [path / name for _, name in _lines(listed)]
        times = [(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns) for found in map(os.stat, files)]
        if _found_whole.get(path) == (listed, times):
            return True
        whole = _is_as_recorded(path) if listed is None else _are_as_listed(path, listed)
        # A file that changes twice in a tick of the clock has the same times.
        if whole and time.time_ns() - max((each[-1] for each in times), default=0) > 100_000_000:
            _found_whole[path] = (listed, times)
        return whole
    except (OSError, ValueError):
        return False


def _lines(listed) -> list[tuple[str, str]]:
    """The checksums and names of a folder's files, in the contents of its `complete`. Raises ValueError if cut off."""
    *lines, last = listed.decode().splitlines() or [""]
    if last != f"{len(lines)} files":
        raise ValueError(last)
    return [tuple(line.split(" ", 1)) for line in lines]


def _are_as_listed(folder, listed) -> bool:
    return all(_checksum((folder / name).read_bytes()) == recorded for recorded, name in _lines(listed))


def _is_as_recorded(library) -> bool:
    contents, mark, recorded = library.read_bytes().rpartition(_MARK)
    return bool(mark) and _checksum(contents).encode() == recorded


def _checksum(contents) -> str:
    """Shows damage, not forgery: against that, `check_owner` looks at whose the files are."""
    return f"{len(contents)}-{zlib.crc32(contents):08x}"


# ---- whose it is ----------------------------------------------------------------------------------------------------


def make_folder(folder):
    """Make a folder of the cache, and those above it that are missing. No other user may write to them."""
    if not folder.parent.exists():
        make_folder(folder.parent)
    folder.mkdir(mode=0o755, exist_ok=True)


def check_owner(cache, folder):
    """Raise ToolchainError if another user could have put something into `folder`, which is in the cache `cache`.

    A library runs as whoever loads it. So each folder from `cache` down to `folder` must belong to this user or to
    root, and no other user may write to it. Where root works in a user's home, as containers often do, that user's
    cache is accepted too: Python itself reads that home.
    """
    __tracebackhide__ = True
    inner, owners = folder.relative_to(cache).parts, _trusted_owners()
    for path in [cache.joinpath(*inner[:depth]) for depth in range(len(inner) + 1)]:
        try:
            found = os.stat(path)
        except OSError:  # not there yet, or not to be entered: those who use it find out
            return
        if path != folder and not stat.S_ISDIR(found.st_mode):
            return  # whoever makes a folder in it finds out
        shown, another = short_path(path), "export CUDA_COURSE_CACHE=~/my-cuda-course, or any folder of your own"
        if found.st_uid not in owners:
            yours = f"; or, to make it yours, sudo chown -R {_user(os.geteuid())} {short_path(cache)}"
            raise ToolchainError(
                f"the cache of builds, {shown}, belongs to another user ({_user(found.st_uid)}), who could replace "
                "what Python loads from it",
                another + (yours if _has_builds_only(cache) else ""),
            )
        if path != folder and found.st_mode & stat.S_ISVTX:  # as /tmp: what is in it belongs to who made it
            continue
        if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not _is_private_group(found)):
            stopped = f"chmod go-w {shown} && python -m utils.manage.cache --clear (what was there is built again); or "
            raise ToolchainError(
                f"other users may write to the cache of builds, {shown}, and replace what Python loads from it",
                (stopped if _has_builds_only(cache) else "") + another,
            )


def _has_builds_only(cache) -> bool:
    """Whether a cache is a folder of the course's alone, and not, for instance, a home."""
    try:
        return set(os.listdir(cache)) <= {"cpu", "cuda", "runtime", "looked"}
    except OSError:
        return False


def _trusted_owners() -> set[int]:
    """This user and root; for root itself, also the owner of the home that it works in."""
    owners = {os.geteuid(), 0}
    if os.geteuid() == 0:
        try:
            owners.add(os.stat(Path.home()).st_uid)
        except (OSError, RuntimeError):
            pass
    return owners


def _is_private_group(found) -> bool:
    """Whether the group of a file is its owner's alone, as most Linux systems set it up."""
    import grp
    import pwd

    try:
        group, owner = grp.getgrgid(found.st_gid), pwd.getpwuid(found.st_uid)
    except KeyError:
        return False
    return owner.pw_gid == found.st_gid and set(group.gr_mem) <= {owner.pw_name} and group.gr_name == owner.pw_name


def _user(number) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"number {number}"
