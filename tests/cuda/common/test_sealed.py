"""What the cache loads: broken entries are made again, and folders that others could change are refused."""

import errno
import os
import pwd
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from utils.cuda.common import cache, sealed
from utils.cuda.cpu import build
from utils.cuda.cpu.module import Module
from utils.ground.errors import ToolchainError

ROOT = Path(cache.__file__).parents[3]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The place of a build in an empty cache."""
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "cpu" / "k_1"


def built(folder, needs=()):
    """How often a build was made: 1, or 0 where the one that was there is whole."""
    made = []

    def fill(place):
        made.append(place)
        (place / "kernel.so").write_bytes(b"\x7fELF" + bytes(5000))
        (place / "kernel.o").write_bytes(b"needed for linking only")
        (place / "commands.txt").write_text(f"g++ -o {place}/kernel.so\n")
        return ""

    cache.build_once(folder, fill, "compiling", {}, 1, needs=needs)
    return len(made)


def replaced_by_a_folder(path):
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


def flipped(path, at):
    contents = bytearray(path.read_bytes())
    contents[at] ^= 0x40
    path.write_bytes(contents)


@pytest.mark.parametrize("name", ["kernel.so", "commands.txt", "complete"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-10]),
        lambda path: flipped(path, 5),
        lambda path: flipped(path, -3),
        lambda path: path.write_bytes(b"\xff\xfe\0"),
        replaced_by_a_folder,
    ],
)
def test_a_damaged_file_means_a_new_build(folder, name, damage):
    assert built(folder) == 1 and built(folder) == 0
    damage(folder / name)
    assert built(folder) == 1 and built(folder) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["commands.txt", "complete", "kernel.so"]


def test_what_is_whole_is_read_again_only_after_a_change(folder, monkeypatch):
    built(folder)
    time.sleep(0.2)  # a file that is younger than a tick of the clock might change without a trace
    assert built(folder) == 0
    read, real = [], sealed._checksum
    monkeypatch.setattr(sealed, "_checksum", lambda contents: read.append(len(contents)) or real(contents))
    assert built(folder) == built(folder) == 0 and not read
    os.utime(folder / "kernel.so")
    assert built(folder) == 0 and 5004 in read


def test_a_build_replaced_by_something_else_is_made_again(folder):
    built(folder)
    elsewhere = folder.rename(folder.with_name("elsewhere"))
    for place in (lambda: folder.write_text("a file"), lambda: folder.symlink_to("nowhere")):
        place()
        assert built(folder) == 1 and built(folder) == 0 and folder.is_dir() and not folder.is_symlink()
        folder.rename(folder.with_name(f"gone{len(list(folder.parent.iterdir()))}"))
    folder.symlink_to(elsewhere)
    assert built(folder) == 0, "a link to a whole build is one"


def test_a_library_that_a_build_needs(folder):
    library = folder.parent / "runtime.so"
    built(folder)
    assert built(folder, [library]) == 1, "it is missing"
    library.write_bytes(b"\x7fELF" + bytes(3000))
    assert not sealed.is_whole(library)
    sealed.put(library, folder.parent / "put.so")
    library = folder.parent / "put.so"
    assert sealed.is_whole(library) and built(folder, [library]) == 0
    whole = library.read_bytes()
    for damaged in (b"", whole[:-1], whole[:100], b"\0" + whole[1:], whole[:-1] + b"?"):
        library.write_bytes(damaged)
        assert not sealed.is_whole(library) and built(folder, [library]) == 1
    library.unlink()
    library.mkdir()
    assert not sealed.is_whole(library)
    (folder.parent / "new.so").write_bytes(b"\x7fELF")
    sealed.put(folder.parent / "new.so", library)
    assert sealed.is_whole(library), "it replaces a folder"


KERNEL = """
import sys, torch
from pathlib import Path
from utils import compile_kernel
x = torch.zeros(4)
compile_kernel("__global__ void k(float* x) { x[threadIdx.x] = 7; }", "k")[1, 4](x)
print(x.tolist())
"""


COPIED = """
import shutil
from utils.cuda.common import sealed
from utils.cuda.cpu import library
def with_library(commands, folder, say):
    beside = library.path().with_name("beside.so")
    shutil.copy2({whole!r}, beside)
    sealed.put(beside, library.path())
    print("the runtime was missing")
    return library.run(commands, say, folder / "warnings.log")
library._with_library = with_library
"""


def test_truncated_libraries_do_not_end_python(folder, monkeypatch):
    """The kernel's, the runtime's and the guard's: a process that loads the half of one dies of SIGBUS. To compile the
    runtime takes most of a minute, so a copy of the other tests' stands for a new one."""
    own = folder.parents[1].with_name("three")
    monkeypatch.undo()  # the cache of the other tests, in which there is a runtime to copy

    def launched(before="", **cache):
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **cache}
        command = [sys.executable, "-c", before + KERNEL]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
        *missing, values = done.stdout.splitlines() or [""]
        assert done.returncode == 0 and values == "[7.0, 7.0, 7.0, 7.0]", done.stderr
        return missing

    launched()
    sealed.make_folder(own / "runtime")
    for library in build.needs():
        shutil.copy2(library, own / "runtime")
    for missing in ([], ["the runtime was missing"]):
        assert launched(COPIED.format(whole=str(build.needs()[0])), CUDA_COURSE_CACHE=str(own)) == missing
        libraries = [path for path in own.glob("*/**/*.so") if not path.parent.name.startswith("names")]
        assert len(libraries) == 3 and all(path.stat().st_size > 4000 for path in libraries)
        for path in libraries:
            os.truncate(path, 3000)


# ---- whose it is ----------------------------------------------------------------------------------------------------


def stat_of(monkeypatch, path, uid=None, gid=None, mode=0):
    """os.stat reports another owner of `path`, or more rights."""
    real = os.stat

    def changed(asked, *args, **options):
        found = real(asked, *args, **options)
        if Path(asked) != path:
            return found
        fields = list(found)
        fields[0] |= mode
        fields[4] = found.st_uid if uid is None else uid
        fields[5] = found.st_gid if gid is None else gid
        return os.stat_result(fields)

    monkeypatch.setattr(os, "stat", changed)


def test_folders_that_others_may_write_to_are_refused(folder):
    built(folder)
    top = folder.parents[1]
    for path in (top, folder.parent, folder, top / "runtime"):
        path.mkdir(exist_ok=True)
        path.chmod(0o777)
        with pytest.raises(ToolchainError, match=f"other users may write to .*{path.name}, .*chmod go-w .*{path.name}"):
            built(folder)
        path.chmod(0o755)
    assert built(folder) == 0
    top.chmod(0o1777)
    assert built(folder) == 0, "in a folder such as /tmp, files belong to who made them"
    folder.chmod(0o1777)
    with pytest.raises(ToolchainError, match="other users may write"):
        built(folder)


def test_the_group_counts_unless_it_is_the_owner_s_own(folder, monkeypatch):
    built(folder)
    me = pwd.getpwuid(os.geteuid())
    stat_of(monkeypatch, folder.parents[1], gid=12345, mode=0o020)
    with pytest.raises(ToolchainError, match="other users may write"):
        built(folder)
    monkeypatch.undo()
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(folder.parents[1]))
    stat_of(monkeypatch, folder.parents[1], gid=me.pw_gid, mode=0o020)
    if sealed._is_private_group(os.stat(folder.parents[1])):
        assert built(folder) == 0


def test_another_user_s_cache_is_refused_but_root_s_is_not(folder, monkeypatch, tmp_path):
    built(folder)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    stat_of(monkeypatch, folder.parents[1], uid=54321)
    with pytest.raises(ToolchainError, match=r"belongs to another user \(number 54321\)") as raised:
        built(folder)
    assert "sudo chown -R" in raised.value.fix and "export CUDA_COURSE_CACHE=" in raised.value.fix
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    stat_of(monkeypatch, folder.parent, uid=0)
    stat_of(monkeypatch, folder, uid=0)
    stat_of(monkeypatch, folder.parents[1] / "runtime", uid=0)
    assert built(folder) == 0, "root may do what it likes anyway"


def test_root_in_a_user_s_home_uses_that_user_s_cache(folder, monkeypatch, tmp_path):
    built(folder)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    stat_of(monkeypatch, tmp_path, uid=54321)
    stat_of(monkeypatch, folder.parents[1], uid=54321)
    assert built(folder) == 0


def test_a_permissive_umask_makes_no_folder_or_file_that_others_may_write_to(folder):
    before = os.umask(0)
    try:
        built(folder)
    finally:
        os.umask(before)
    made = [folder.parents[1], folder.parent, folder, *folder.iterdir()]
    assert [path.name for path in made if path.stat().st_mode & 0o022] == []


@pytest.mark.parametrize(
    ("number", "fix"),
    [
        (errno.EACCES, r"chmod u\+rwx .*cpu; or export CUDA_COURSE_CACHE="),
        (errno.EROFS, "export CUDA_COURSE_CACHE=.*: the file system of this one is read-only"),
        (errno.ENOSPC, "utils.manage.cache --clear"),
    ],
)
def test_a_cache_that_cannot_be_written_says_what_to_do(folder, monkeypatch, number, fix):
    folder.parent.mkdir(parents=True)

    def refused(place, *args, **options):
        raise OSError(number, os.strerror(number), str(place))

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(ToolchainError, match=f"To fix it: .*{fix}"):
        built(folder)


@pytest.mark.parametrize(
    ("inside", "blocker"), [(".", "mine"), ("x/y", "mine"), ("/dev/null/x", "/dev/null"), ("/dev/null", "/dev/null")]
)
def test_a_file_in_the_cache_s_way_is_named_and_never_to_be_removed(tmp_path, monkeypatch, inside, blocker):
    (tmp_path / "mine").write_text("not a folder")
    cache_folder = tmp_path / "mine" / inside
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(cache_folder))
    with pytest.raises(
        ToolchainError, match=f"To fix it: export CUDA_COURSE_CACHE=.*{blocker} is not a folder"
    ) as raised:
        built(cache_folder / "cpu" / "k_1")
    assert not re.search(r"\brm\b", str(raised.value))


def test_a_folder_that_has_more_than_the_cache_is_not_given_to_anybody(folder, monkeypatch, tmp_path):
    built(folder)
    (folder.parents[1] / "Documents").mkdir()
    folder.parents[1].chmod(0o777)
    with pytest.raises(ToolchainError, match="other users may write to") as raised:
        built(folder)
    assert raised.value.fix.startswith("export CUDA_COURSE_CACHE=")
    stat_of(monkeypatch, folder.parents[1], uid=54321)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    with pytest.raises(ToolchainError, match="belongs to another user") as raised:
        built(folder)
    assert "chown" not in raised.value.fix


def test_a_library_that_cannot_be_loaded_says_why(tmp_path):
    place = tmp_path / "kernel.so"
    place.write_text("not a library")
    with pytest.raises(ToolchainError, match="cannot be loaded: .*kernel.so.*To fix it: if that folder may not hold"):
        Module(str(place), 0)
