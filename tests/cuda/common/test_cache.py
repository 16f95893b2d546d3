"""The cache: who builds and who waits, what a killed build leaves, how much is kept, what a full disk says.

What is asked of a build is mostly asked of one that only writes files; those at the end compile.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.clock import cpu_seconds, slowdown
from utils import CompileError
from utils.cuda.common import cache, toolchain
from utils.ground.errors import ToolchainError

ROOT = Path(cache.__file__).parents[3]
HOUR = 3600


@pytest.fixture
def runtime():
    """Where the engine's runtime is built once for all tests."""
    folder = toolchain.cache_folder() / "runtime"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def folder(runtime, tmp_path, monkeypatch):
    """An empty cache, without a limit that the machine's owner may have set."""
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CUDA_COURSE_CACHE_LIMIT", raising=False)
    return tmp_path / "cache"


def build(folder, kilobytes=1, log="", kind="cpu", unused=0):
    """Build once; how often that was really done. The build was last used `unused` hours ago."""
    done = []

    def fill(place):
        done.append(place)
        (place / "commands.txt").write_text(f"c++ -o {place}/kernel.so\n")
        (place / "kernel.so").write_bytes(b"x" * int(1000 * kilobytes))
        return log

    place = cache.cache_folder() / kind / folder
    cache.build_once(place, fill, "compiling", {"cuda_src": "int x"}, 1)
    then = time.time() - HOUR * unused
    os.utime(place / "complete", (then, then))
    return len(done)


def names(folder):
    """All that is in the cache beside the note when it was last looked at."""
    return sorted(str(p.relative_to(folder)) for p in folder.glob("*/*"))


# ---- building -------------------------------------------------------------------------------------------------------


def test_a_build_is_made_once_and_appears_whole(folder, capsys):
    assert build("a") == 1 and build("a") == 0
    assert names(folder) == ["cpu/a"], "no lock is left"
    assert sorted(p.name for p in (folder / "cpu" / "a").iterdir()) == ["commands.txt", "complete", "kernel.so"]
    assert (folder / "cpu/a/commands.txt").read_text() == f"c++ -o {folder}/cpu/a/kernel.so\n"


def test_nobody_sees_a_build_before_it_is_complete(folder):
    place = folder / "cpu" / "a"

    def fill(beside):
        assert beside != place and not place.exists()
        (beside / "commands.txt").touch()
        return ""

    cache.build_once(place, fill, "compiling", {}, 1)
    assert (place / "complete").exists()


def test_a_failed_build_is_made_again_and_keeps_its_log(folder):
    for _ in range(2):
        with pytest.raises(CompileError, match="cuda_src, line 1: expected"):
            build("a", log="cuda_src:1:6: error: expected ';'")
    assert (folder / "cpu/a/build.log").read_text() == "cuda_src:1:6: error: expected ';'"
    assert build("a") == 1 and not (folder / "cpu/a/build.log").exists()
    assert names(folder) == ["cpu/a"]


def test_a_build_that_is_interrupted_leaves_nothing(folder):
    def stopped(place):
        (place / "half.o").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.build_once(folder / "cpu" / "a", stopped, "compiling", {}, 1)
    assert names(folder) == []


def killed_build(folder, compiler):
    """Kill the process of a build whose compiler, a line of sh, has begun, and goes on. PLACE is where it builds."""
    script = """
import subprocess, sys, time
from utils.cuda.common import cache
def fill(place):
    command = f"touch {sys.argv[1]}/began; {sys.argv[2]}".replace("PLACE", str(place))
    subprocess.Popen(["sh", "-c", command], stderr=subprocess.DEVNULL)
    time.sleep(900)
cache.build_once(cache.cache_folder() / "cpu" / "a", fill, "compiling", {}, 1)
"""
    process = subprocess.Popen([sys.executable, "-c", script, folder, compiler], cwd=ROOT)
    while not (folder / "began").exists():
        time.sleep(0.01)
    process.kill()
    process.wait()


def test_a_compiler_that_outlives_its_killed_process_disturbs_no_later_build(folder):
    wait = f"while [ ! -e {folder}/go ]; do sleep 0.05; done"
    killed_build(folder, f"{wait}; echo half > PLACE/kernel.so; echo ended > {folder}/ended")
    assert build("a") == 1
    (folder / "go").touch()
    while not (folder / "ended").exists():
        time.sleep(0.01)
    assert (folder / "cpu/a/kernel.so").read_bytes() == b"x" * 1000
    assert names(folder) == ["cpu/a"]


def test_a_compiler_that_goes_on_writing_does_not_keep_its_half_build(folder):
    killed_build(folder, "i=0; while echo half > PLACE/$i.o; do i=$((i + 1)); done")
    assert build("a") == 1
    assert names(folder) == ["cpu/a"]


def test_eight_processes_that_want_one_build_make_it_once(folder):
    script = """
import sys, time
from utils.cuda.common import cache
def fill(place):
    with open(sys.argv[1], "a") as counted:
        counted.write("built\\n")
    (place / "commands.txt").touch()
    time.sleep(0.5)
    (place / "kernel.so").write_text("all of it")
    return ""
place = cache.cache_folder() / "cpu" / "a"
cache.build_once(place, fill, "compiling", {}, 1)
print((place / "kernel.so").read_text())
"""
    counted = folder.with_name("counted")
    command = [sys.executable, "-c", script, counted]
    eight = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    assert [process.communicate(timeout=900)[0] for process in eight] == ["all of it\n"] * 8
    assert counted.read_text() == "built\n"
    assert names(folder) == ["cpu/a"]


def test_two_builds_of_one_name_never_meet(folder):
    one, two = (cache.hashed(source, "k", ()) for source in ("int x;", "int y;"))
    assert one != two and build(f"k_{one}") == build(f"k_{two}") == 1
    assert cache.file_name("k<float, 4>") == "k_float_4" and len(cache.file_name("k" * 300)) == 40


def test_who_finds_a_build_that_is_there_waits_for_nobody(folder, monkeypatch):
    build("a")
    seconds = []
    with cache.sole_builder(folder / "cpu" / "a"):
        monkeypatch.setattr(cache, "sole_builder", lambda *a, **k: pytest.fail("waits"))
        for _ in range(5):
            start = cpu_seconds()
            assert build("a") == 0
            seconds.append(cpu_seconds() - start)
    assert min(seconds) < 0.02


def test_a_lock_is_held_by_one_at_a_time_though_each_removes_its_file(folder):
    inside, most = [], []

    def work():
        for _ in range(30):
            with cache.sole_builder(folder / "cpu" / "a"):
                inside.append(1)
                time.sleep(0.0002)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1 and len(most) == 240
    assert names(folder) == []


# ---- the limit ------------------------------------------------------------------------------------------------------


@pytest.fixture
def limited(folder, monkeypatch):
    """A cache of 100 kB that is looked at after every build."""
    monkeypatch.setenv("CUDA_COURSE_CACHE_LIMIT", "0.0001")
    monkeypatch.setattr(cache, "PAUSE", 0)
    return folder


def test_what_was_unused_longest_goes_first(limited):
    for name, hours in (("a", 5), ("b", 9), ("c", 7)):
        build(name, kilobytes=30, unused=hours)
    assert names(limited) == ["cpu/a", "cpu/b", "cpu/c"]
    cache.build_once(limited / "cpu" / "b", pytest.fail, "compiling", {}, 1)  # b is used
    build("d", kilobytes=30)
    assert names(limited) == ["cpu/a", "cpu/b", "cpu/d"]
    build("e", kilobytes=60)
    assert names(limited) == ["cpu/b", "cpu/d", "cpu/e"], "what was used in the last hour stays, whatever its size"


def test_what_another_process_builds_or_has_just_loaded_stays(limited):
    build("loaded", kilobytes=90, unused=0.5)
    build("locked", kilobytes=90, unused=5)
    with cache.sole_builder(limited / "cpu" / "locked"):
        build("b", kilobytes=90)
        assert {"cpu/loaded", "cpu/locked", "cpu/b"} <= set(names(limited))
    build("c")
    assert names(limited) == ["cpu/b", "cpu/c", "cpu/loaded"]


def test_what_killed_builds_left_goes_though_there_is_room(folder, monkeypatch):
    monkeypatch.setattr(cache, "PAUSE", 0)
    build("a", unused=5)
    for left in ("cpu/b.1700000000123", "cpu/c.1700000000045"):
        (folder / left).mkdir()
        (folder / left / "half.o").touch()
    for left in ("cpu/b.lock", "cpu/d.lock"):
        (folder / left).touch()
    long_ago = time.time() - 5 * HOUR
    for left in ("cpu/b.1700000000123", "cpu/b.lock", "cpu/d.lock"):
        os.utime(folder / left, (long_ago, long_ago))
    build("e")
    assert names(folder) == ["cpu/a", "cpu/c.1700000000045", "cpu/e"]


def test_a_library_of_the_runtime_goes_when_no_build_needs_it(limited):
    long_ago = time.time() - 5 * HOUR
    for name in ("old", "new"):
        library = limited / "runtime" / f"libcuda_on_cpu-{name}.so"
        library.parent.mkdir(parents=True, exist_ok=True)
        library.write_bytes(b"x" * 30_000)
        os.utime(library, (long_ago, long_ago))
    build("a")
    linked = limited / "cpu" / "a" / "kernel.so"
    linked.write_bytes(b"\0libc.so.6\0libcuda_on_cpu-new.so\0")
    build("b", kilobytes=90)
    assert names(limited) == ["cpu/a", "cpu/b", "runtime/libcuda_on_cpu-new.so"]


def test_what_is_not_a_build_is_never_removed(limited):
    """CUDA_COURSE_CACHE may name a folder that has something else, such as a home."""
    theirs = [
        limited / name for name in ("Documents/thesis/text", "cuda/project/main.cu", "cpu/v.12/a", "cuda/uv.lock")
    ]
    long_ago = time.time() - 5 * HOUR
    for path in theirs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 90_000)
        for place in (path, path.parent):
            os.utime(place, (long_ago, long_ago))
    build("a", kilobytes=90, unused=5)
    build("b", kilobytes=90, unused=5)
    cache.clear()
    assert all(path.stat().st_size == 90_000 for path in theirs) and not (limited / "cpu" / "a").exists()


def test_the_size_is_looked_at_now_and_then_only(folder, monkeypatch):
    looks = []
    monkeypatch.setattr(cache, "_entries", lambda: looks.append(1) or [])
    for name in "abc":
        build(name)
    assert len(looks) == 1
    then = time.time() - cache.PAUSE - 1
    os.utime(folder / "looked", (then, then))
    build("d")
    assert len(looks) == 2


@pytest.mark.parametrize("said", ["much", "-1", "nan"])
def test_a_limit_that_is_no_size(folder, monkeypatch, said):
    monkeypatch.setenv("CUDA_COURSE_CACHE_LIMIT", said)
    with pytest.raises(ToolchainError, match=f"CUDA_COURSE_CACHE_LIMIT='{said}' is not a number of gigabytes"):
        build("a")


def test_a_cache_that_may_only_be_read_is_used(folder, monkeypatch):
    build("a")

    def refused(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "utime", refused)
    cache.build_once(folder / "cpu" / "a", pytest.fail, "compiling", {}, 1)


# ---- the command ----------------------------------------------------------------------------------------------------


def command(*words, **environment):
    words = [sys.executable, "-m", "utils.manage.cache", *words]
    return subprocess.run(words, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)


def test_the_command_shows_what_there_is_and_removes_it(folder):
    shown = command()
    assert shown.returncode == 0 and shown.stdout == f"{folder}: 0.0 MB of at most 2 GB\n", shown.stderr
    build("a", kilobytes=1500, unused=72)
    build("b", kilobytes=500)
    build("c", kilobytes=300, kind="cuda")
    first, head, cpu, cuda = command().stdout.splitlines()
    assert first == f"{folder}: 2.3 MB of at most 2 GB" and head.split() == [
        "kind",
        "number",
        "size",
        *head.split()[3:],
    ]
    days_ago = time.strftime("%Y-%m-%d", time.localtime(time.time() - 72 * HOUR))
    assert cpu.split()[:6] == ["cpu", "2", "2.0", "MB", "since", days_ago]
    assert cuda.split()[:4] == ["cuda", "1", "0.3", "MB"]

    with cache.sole_builder(folder / "cpu" / "b"):
        cleared = command("--clear")
    assert cleared.returncode == 0 and cleared.stdout.splitlines() == [
        f"removed 2 from {folder}: 1.8 MB",
        f"left alone, because a process is building: {folder}/cpu/b",
    ]
    assert names(folder) == ["cpu/b"]
    assert command("--clear").stdout == f"removed 1 from {folder}: 0.5 MB\n" and names(folder) == []


def test_the_command_with_a_wrong_word_or_limit(folder):
    assert "usage: python -m utils.manage.cache [-h] [--clear]" in command("--wipe").stderr
    wrong = command(CUDA_COURSE_CACHE_LIMIT="big")
    assert wrong.returncode == 1 and wrong.stderr.startswith("CUDA_COURSE_CACHE_LIMIT='big' is not a number")


# ---- a full disk ----------------------------------------------------------------------------------------------------

FULL = "the build does not fit on the disk .*utils.manage.cache --clear.*, or set CUDA_COURSE_CACHE to a folder on"


def test_a_compiler_that_finds_the_disk_full(folder):
    with pytest.raises(ToolchainError, match=rf"{FULL}.*{folder}") as raised:
        build("a", log="cuda_src:1:2: error: x\n/tmp/cc1.s: fatal error: No space left on device\nended with 1")
    assert "/tmp/cc1.s: fatal error: No space left on device" in str(raised.value)
    assert names(folder) == []


KERNEL = """
import os, random, signal, sys, time
import torch
from utils import compile_kernel
from utils.cuda.common import toolchain
source = "__device__ int table[200000] = {6}; __global__ void k(int* x) { x[0] = table[0] + 1; }"
"""


def run(script, *before):
    """What a process of its own prints, without a GPU."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [*before, sys.executable, "-c", KERNEL + script]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_disk_that_is_full(folder, runtime):
    """One of 300 kB, which is less than the kernel takes."""
    mount = f"mkdir -p {folder} && mount -t tmpfs -o size=300k none {folder} && ln -s {runtime} {folder}/runtime"
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if not shutil.which("unshare") or subprocess.run([*alone, mount], capture_output=True).returncode:
        pytest.skip("a disk of its own cannot be mounted here")
    script = """
try:
    compile_kernel(source, "k")
except toolchain.ToolchainError as error:
    print(error)
print([p.name for p in toolchain.cache_folder().glob("cpu/*")])
"""
    refused, left = run(script, *alone, f'{mount} && exec "$0" "$@"')
    assert re.match(FULL, refused) and "No space left on device" in refused
    assert left == "[]"


# ---- killed at any moment -------------------------------------------------------------------------------------------


def test_builds_killed_at_random_leave_nothing_that_a_later_one_meets(folder, runtime):
    folder.mkdir()
    (folder / "runtime").symlink_to(runtime)
    script = """
compile_kernel(source.replace("k(", "other("), "other")  # all that is slow the first time
for number in range(8):
    if not (child := os.fork()):
        try:
            compile_kernel(source, "k")
        finally:
            os._exit(0)
    time.sleep(random.uniform(0.02, 0.15 if number == 0 else 1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(len(list(toolchain.cache_folder().glob("cpu/k_*/complete"))))
x = torch.zeros(1, dtype=torch.int32)
began = time.monotonic()
compile_kernel(source, "k")[1, 1](x)
print(x.item(), time.monotonic() - began)
"""
    slower = slowdown()
    first, *_, last = run(script)
    value, seconds = last.split()
    assert first == "0", "killed before it was done"
    assert value == "7" and float(seconds) < 30 * max(slower, slowdown())
    kept = [name.partition("_")[0] for name in names(folder) if not name.startswith("runtime/")]
    assert kept == ["cpu/k", "cpu/other"], "neither a lock nor half a build"
