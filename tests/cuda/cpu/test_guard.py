"""Guards around torch's tensors (utils/cuda/cpu/guard): what is told of a step outside, and that torch works on."""

import copy
import ctypes
import gc
import io
import json
import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest
import torch

from tests.cuda.cpu.limits import needs_proc, run_python
from utils import compile_kernel, load_cuda
from utils.cuda.common.sealed import is_whole
from utils.cuda.cpu import guard
from utils.cuda.kernel import compile_kernels

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="torch's tensors are guarded where there is no GPU")

SOURCE = r"""
__device__ bool chosen() { return blockIdx.x == 2 && threadIdx.x == 5; }
__global__ void put(float* x, long long at) { if (chosen()) x[at] = 7; }
__global__ void get(const float* x, float* out, long long at) { if (chosen()) *out = x[at]; }
__global__ void put_byte(unsigned char* x, long long at) { if (chosen()) x[at] = 255; }
__global__ void fill(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = i;
}
"""
WHO = "thread (5, 0, 0) of block (2, 0, 0) of "
SIZES = [4, 5, 17, 1000, 1024]  # of floats: in all but the second and third, the guard begins where the tensor ends


@pytest.fixture(scope="module")
def kernels():
    with guard.building():
        made = {name: compile_kernel(SOURCE, name) for name in ("put", "get", "put_byte", "fill")}
    assert guard.guard_tensors(made["put"]._module.library)
    return made


def message(kernel, *args, launch=(4, 8)):
    """What a launch says that goes wrong; empty if it goes well."""
    try:
        kernel[launch](*args)
    except RuntimeError as error:
        text = str(error)
        assert text.startswith("CUDA error: an illegal memory access was encountered: ")
        return text.partition("encountered: ")[2]
    return ""


# ---- steps outside ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
def test_a_write_right_behind_a_tensor(kernels, n):
    x = torch.zeros(n)
    told = message(kernels["put"], x, n)
    if n % 4 == 0:
        assert told.startswith(f"{WHO}put writes right past the end of a tensor of {4 * n} bytes: ")
    else:
        assert told.startswith(f"a thread of put wrote right past the end of a tensor of {4 * n} bytes: ")
        assert "under .trace" in told
    assert not message(kernels["put"], x, n - 1)  # told once, and over
    assert x[n - 1] == 7 and x.count_nonzero() == 1


@pytest.mark.parametrize("n", SIZES)
def test_a_read_right_behind_a_tensor_faults_or_is_not_a_number(kernels, n):
    x, out = torch.zeros(n), torch.zeros(1)
    told = message(kernels["get"], x, out, n)
    if n % 4 == 0:
        assert told.startswith(f"{WHO}get reads right past the end of a tensor of {4 * n} bytes: ")
    else:
        assert not told and out.isnan()


@pytest.mark.parametrize("n", SIZES)
def test_a_step_before_a_tensor(kernels, n):
    x, out = torch.zeros(n), torch.zeros(1)
    assert not message(kernels["get"], x, out, -1) and out.isnan()
    told = message(kernels["put"], x, -1)
    assert told.startswith(f"a thread of put wrote 4 bytes before the start of a tensor of {4 * n} bytes: ")
    assert not message(kernels["put"], x, 0) and x[0] == 7


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("rows", [1, 15])
def test_a_step_that_is_rows_too_far(kernels, n, rows):
    x, out = torch.zeros(n), torch.zeros(1)
    far = rows * 1000
    for name, verb, args in (("put", "writes", (x,)), ("get", "reads", (x, out))):
        told = message(kernels[name], *args, n + far - 1)
        assert told.startswith(f"{WHO}{name} {verb} {4 * far - 4} bytes past the end of a tensor of {4 * n} bytes: ")
        told = message(kernels[name], *args, -far - 1000)
        assert told.startswith(f"{WHO}{name} {verb} {4 * far + 4000} bytes before the start of a tensor of {4 * n} ")


@pytest.mark.parametrize("n", [*range(1, 34), 4095, 4096, 4097])
def test_one_byte_too_many(kernels, n):
    x = torch.zeros(n, dtype=torch.uint8)
    assert f" right past the end of a tensor of {n} bytes: " in message(kernels["put_byte"], x, n)
    assert f" 1 bytes before the start of a tensor of {n} bytes: " in message(kernels["put_byte"], x, -1)
    assert x.count_nonzero() == 0


SIDE = r"""
template <class T> __device__ void both(T* x, T* y, int n, int how) {
    if (how == 0) y[n] = 2 * x[n] + 1;  // a NaN stays the same NaN
    if (how == 1) x[n] *= 2;
    if (how == 2) y[n] = x[n];
    if (how == 3) atomicAdd(&x[n], T(1));
    if (how == 4) x[n] = max(x[n], T(0));
}
__global__ void floats(float* x, float* y, int n, int how) { both(x, y, n, how); }
__global__ void doubles(double* x, double* y, int n, int how) { both(x, y, n, how); }
__global__ void ints(int* x, int* y, int n, int how) { both(x, y, n, how); }
__global__ void bytes(unsigned char* x, unsigned char* y, int n) { y[n] = x[n]; }
"""


def test_what_is_computed_from_beside_a_tensor_and_put_there_is_noticed(kernels):
    types = {"floats": torch.float32, "doubles": torch.float64, "ints": torch.int32}
    made = compile_kernels(SIDE, [*types, "bytes"])
    for kernel, dtype in zip(made[:3], types.values(), strict=True):
        for n in (5, 17, 23) if dtype == torch.float64 else (5, 6, 7, 18):
            for how in range(
                5 if dtype.is_floating_point else 4
            ):  # a mark is a large integer, the maximum of itself and 0
                x, y = (torch.zeros(n, dtype=dtype) for _ in range(2))
                for at in (n, -1) if dtype != torch.float64 else (n,):
                    told = message(kernel, x, y, at, how, launch=(1, 1))
                    where = r"(right|\d bytes) past the end" if at == n else r"\d bytes before the start"
                    assert re.match(f"a thread of {kernel.name} wrote {where} of a tensor", told), (dtype, n, how, at)
    for n in (5, 6, 9, 17, 3 * 7 * 5):
        x, y = (torch.zeros(n, dtype=torch.uint8) for _ in range(2))
        assert message(made[3], x, y, n, launch=(1, 1)).startswith("a thread of bytes wrote right past the end"), n


def test_the_first_thread_that_has_no_element_is_named(kernels):
    told = message(kernels["fill"], torch.zeros(1000), 1024, launch=(4, 256))
    who = "thread (232, 0, 0) of block (3, 0, 0) of fill"
    assert told.startswith(f"{who} writes right past the end of a tensor of 4000 bytes: ")


def test_a_view_ends_with_its_memory(kernels):
    whole = torch.zeros(16)
    assert not message(kernels["put"], whole[4:8], 4)  # still inside: a trace tells
    assert whole[8] == 7
    told = message(kernels["put"], whole[4:8], 12)
    assert told.startswith(f"{WHO}put writes right past the end of a tensor of 64 bytes: ")


def test_an_extension_is_told_as_a_kernel_is():
    source = r"""
#include <ATen/core/Tensor.h>
__global__ void step_out(float* x, int n) { x[n + threadIdx.x] = 1; }
void stepped_out(at::Tensor x) { step_out<<<1, 1>>>(x.data_ptr<float>(), x.numel()); }
"""
    module = load_cuda(source, "void stepped_out(at::Tensor x);", ["stepped_out"])
    with guard.building():
        pass
    assert guard.guard_tensors(ctypes.CDLL(module.__file__))
    with pytest.raises(RuntimeError, match=r"thread \(0, 0, 0\) .* writes right past the end of a tensor of 32 "):
        module.stepped_out(torch.zeros(8))
    with pytest.raises(RuntimeError, match="a thread of step_out wrote right past the end of a tensor of 36 bytes"):
        module.stepped_out(torch.zeros(9))


COPY = r"""
__global__ void copy(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i];
}
"""
HOST = (
    r"""
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
"""
    + COPY
    + r"""
at::Tensor copied(at::Tensor x) {
    at::Tensor out = at::empty_like(x);
    copy<<<(x.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
    return out;
}
int64_t memcpy_of(at::Tensor to, at::Tensor from, int64_t bytes) {
    cudaMemcpy(to.data_ptr(), from.data_ptr(), bytes, cudaMemcpyDeviceToDevice);
    return cudaGetLastError();
}
"""
)
HOST_NAMES = "at::Tensor copied(at::Tensor x); int64_t memcpy_of(at::Tensor to, at::Tensor from, int64_t bytes);"


def test_copies_by_the_host_end_with_the_tensor(kernels):
    module = load_cuda(HOST, HOST_NAMES, ["copied", "memcpy_of"])
    guard.guard_tensors(ctypes.CDLL(module.__file__))
    small, large = torch.zeros(1001), torch.ones(5000)
    assert module.memcpy_of(small, large, 4004) == 0 and (small == 1).all()
    for to, bytes_ in ((small, 4005), (large, 4005), (small, 20_000)):
        assert module.memcpy_of(to, small if to is large else large, bytes_) == 1  # cudaErrorInvalidValue
    assert module.memcpy_of(small[1:], large, 4001) == 1


@pytest.mark.parametrize("n", [1000, 1001, 1004, 1006])
def test_a_checked_extension_counts_as_a_trace_does(kernels, n):
    module = load_cuda(HOST, HOST_NAMES, ["copied", "memcpy_of"], trace=True)
    traced = compile_kernel(COPY, "copy")
    for x in (torch.zeros(n), torch.zeros(n + 9)[1:-8], torch.zeros(n + 9)[8:-1]):
        module.copied(x)
        expected = traced.trace[(n + 127) // 128, 128](x, torch.zeros(n), n).requests
        assert module.trace.requests["sectors"].tolist() == expected["sectors"].tolist()
    assert is_guarded(torch.zeros(n))  # again, after the check


# ---- afterwards ------------------------------------------------------------------------------------------------------


def test_after_a_hundred_faults_torch_still_computes(kernels):
    x, other = torch.arange(1000.0), torch.arange(1000.0)
    for i in range(100):
        assert message(kernels["put"], x, 1000 + i).startswith(WHO)
    torch.testing.assert_close(x, other, rtol=0, atol=0)
    a = torch.randn(65, 100, dtype=torch.float64)
    torch.testing.assert_close(a @ a.t(), torch.from_numpy(a.numpy() @ a.numpy().T))
    assert not message(kernels["fill"], x, 1000, launch=(4, 256))
    torch.testing.assert_close(x, other, rtol=0, atol=0)


def test_the_process_survives_sixty_floats_too_many(kernels):
    script = f"""
import gc, torch
from utils.lesson.start import start
start()
from utils import compile_kernel
fill = compile_kernel({SOURCE!r}, "fill")
who, told = "thread (40, 0, 0) of block (2, 0, 0) of fill", 0
for _ in range(50):
    x, beside = torch.zeros(240), [torch.ones(240) for _ in range(3)]
    try:
        fill[3, 100](x, 300)
    except RuntimeError as error:
        told += who + " writes right past the end of a tensor of 960 bytes" in str(error)
    assert all((y == 1).all() for y in beside) and (x[:200] == torch.arange(200)).all()
gc.collect()
print(told)
"""
    assert run_python(script).splitlines()[-1] == "50"


def poke(x, offset):
    """Write a byte beside a tensor without a launch, as the host's code in an extension could."""
    ctypes.memset(x.data_ptr() + offset, 1, 1)


def test_a_write_beside_a_tensor_that_is_gone_is_told_at_the_next_launch(kernels):
    x, other = torch.zeros(5), torch.zeros(8)
    poke(x, 22)
    del x
    told = message(kernels["fill"], other, 8)
    assert told.startswith("before this launch of fill, something wrote 2 bytes past the end of a tensor of 20 bytes")
    assert not message(kernels["fill"], other, 8)
    assert (other == torch.arange(8)).all()


def test_old_tensors_are_looked_at_when_they_are_freed(kernels):
    x = torch.zeros(5)
    newer = [torch.zeros(8) for _ in range(300)]
    poke(x, -1)
    assert not message(kernels["fill"], newer[0], 8)
    del x
    assert "something wrote 1 bytes before the start of a tensor of 20 bytes" in message(kernels["fill"], newer[0], 8)


def test_a_trace_finds_what_a_launch_tells_of(kernels):
    trace = kernels["put"].trace[4, 8](torch.zeros(5), 5)
    (problem,) = trace.problems
    assert (problem.kind, problem.block, problem.thread) == ("out_of_bounds", (2, 0, 0), (5, 0, 0))


# ---- torch as ever ---------------------------------------------------------------------------------------------------


def is_guarded(x):
    """Whether the guard's pages begin where the tensor's memory, rounded up to 16 bytes, ends."""
    return (x.data_ptr() + (x.nbytes + 15) // 16 * 16) % os.sysconf("SC_PAGESIZE") == 0


def test_tensors_are_where_they_should_be(kernels):
    for n in (1, 3, 4, 1000, 1024, 10**6):
        x = torch.empty(n)
        assert is_guarded(x) and x.data_ptr() % 16 == 0
    assert torch.empty(0).data_ptr() == 0 and torch.empty(3, 0, 5).sum() == 0


def test_storages_change_and_travel(kernels):
    x = torch.arange(10.0)
    x.resize_(10_000)
    assert is_guarded(x) and (x[:10] == torch.arange(10)).all()
    x.untyped_storage().resize_(40)
    assert (x[:10] == torch.arange(10)).all()
    x = torch.arange(10.0).share_memory_()
    assert x.is_shared() and (x == torch.arange(10)).all()
    array = numpy.arange(5.0)
    torch.from_numpy(array)[2] = 9
    assert array[2] == 9
    view = torch.full((1000,), 3.0).numpy()  # outlives its tensor
    gc.collect()
    assert (view == 3).all()
    y = copy.deepcopy(torch.arange(5))
    assert y.clone().tolist() == [0, 1, 2, 3, 4]
    file = io.BytesIO()
    torch.save({"x": x, "y": y}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert (loaded["x"] == x).all() and (loaded["y"] == y).all()


def test_too_much_memory_is_refused_in_torchs_words(kernels):
    for n in (2**55, 2**60):
        with pytest.raises(RuntimeError, match=f"can't allocate memory: you tried to allocate {n} bytes"):
            torch.empty(n, dtype=torch.uint8)
    assert is_guarded(torch.empty(5))


def test_the_profiler_is_told_of_memory(kernels):
    with torch.profiler.profile(profile_memory=True) as profile:
        x = torch.empty(12_345, dtype=torch.uint8)
        del x
    sizes = [event.self_cpu_memory_usage for event in profile.events()]
    assert 12_345 in sizes and -12_345 in sizes


def test_threads_share_the_memory(kernels):
    wrong = []

    def work(seed):
        made = torch.Generator().manual_seed(seed)
        for i in range(300):
            n = int(torch.randint(1, 5000, (1,), generator=made))
            x = torch.full((n,), float(seed))
            kernels["fill"][n // 256 + 1, 256](y := torch.empty(n), n)
            if not (x == seed).all() or not (y == torch.arange(n)).all():
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_write_is_not_blamed_on_another_threads_launch(kernels):
    told, over = [], threading.Event()

    def fills():
        out = torch.zeros(64)
        while not over.is_set():
            told.append(message(kernels["fill"], out, 64, launch=(2, 32)))

    others = [threading.Thread(target=fills) for _ in range(2)]
    for thread in others:
        thread.start()
    told += [message(kernels["put"], torch.zeros(5), 5) for _ in range(300)]
    over.set()
    for thread in others:
        thread.join()
    assert message(kernels["put"], torch.zeros(5), 5).startswith("a thread of put wrote ")
    blamed = [each for each in told if each.startswith("a thread of fill wrote")]
    assert not blamed and sum(map(bool, told)) > 100


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        return torch.full((100,), float(i)) ** 2


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are not forked")
def test_workers_of_a_data_loader(kernels):
    batches = torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=2, multiprocessing_context="fork")
    assert torch.cat(list(batches))[:, 0].tolist() == [i * i for i in range(32)]


def test_a_fork_while_others_allocate():
    script = """
import os, threading, torch
from utils.lesson.start import start
start()
# PyTorch sets some things up at the first call. A child that is forked in the midst of that waits for ever in PyTorch's
# own code, guarded or not; what is tested here is the guard.
assert torch.ones(1000).sum() == 1000 and torch.full((1,), 2.0).sum() == 2
stop = threading.Event()
def work():
    while not stop.is_set():
        torch.ones(1000)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
ended = []
for _ in range(50):
    child = os.fork()
    if not child:
        os._exit(0 if all(torch.full((n,), 2.0).sum() == 2 * n for n in range(1, 200)) else 1)
    ended.append(os.waitpid(child, 0)[1])
stop.set()
print(sum(ended))
"""
    assert run_python(script).splitlines()[-1] == "0"


# ---- how much --------------------------------------------------------------------------------------------------------


def kilobytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


@needs_proc
def test_ten_thousand_tensors_leave_nothing_behind(kernels):
    def some(count):
        for i in range(count):
            torch.empty(1 + i * 7919 % 50_000).zero_()

    some(1000)
    gc.collect()
    before = kilobytes()
    some(10_000)
    gc.collect()
    assert kilobytes() - before < 4096


@needs_proc
def test_idle_memory_has_a_limit(kernels):
    gc.collect()
    before = kilobytes()
    for megabytes in range(1, 60):  # each of a size that was not there before: 1.8 GB in all
        torch.ones(megabytes * 2**20, dtype=torch.uint8)
    assert kilobytes() - before < 300 * 1024


def test_more_tensors_than_the_system_has_maps_for():
    script = """
import json, torch
from utils.lesson.start import start
start()
page = __import__("os").sysconf("SC_PAGESIZE")
many = [torch.full((3,), float(i)) for i in range(40_000)]
guarded = sum((x.data_ptr() + 16) % page == 0 for x in many)
right = all(x[2] == i for i, x in enumerate(many))
del many
again = torch.ones(3)
print(json.dumps([guarded, right, (again.data_ptr() + 16) % page == 0]))
"""
    guarded, right, again = json.loads(run_python(script).splitlines()[-1])
    assert 15_000 < guarded < 17_000 and right and again


# ---- built, or not ---------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """A cache without a guard, as a new process meets it."""
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    monkeypatch.setattr(guard, "_loaded", None)
    monkeypatch.setattr(guard, "_failed", False)
    guard._fingerprint.cache_clear()
    yield tmp_path / "runtime"
    guard._fingerprint.cache_clear()


def test_it_is_built_once_and_leaves_nothing_else(fresh, monkeypatch):
    assert not guard.guard_tensors()
    begin, begun = guard._begin, []
    monkeypatch.setattr(guard, "_begin", lambda: begun.append("the compiler") or begin())

    def build(_):
        with guard.building():
            pass

    with ThreadPoolExecutor(2) as pool:  # who comes second waits
        list(pool.map(build, range(2)))
    assert begun == ["the compiler"]
    (library,) = fresh.iterdir()
    assert library == guard._path()
    monkeypatch.setattr(guard.subprocess, "Popen", None)  # a second build would fail
    with guard.building():
        pass


def test_no_guard_is_no_reason_to_stop(fresh, monkeypatch, tmp_path):
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    for cxx in (compiler, tmp_path / "nowhere"):
        monkeypatch.setenv("CXX", str(cxx))
        guard._fingerprint.cache_clear()
        monkeypatch.setattr(guard, "_failed", False)
        built = []
        with guard.building():
            built.append("the kernel")
        assert built and not guard.guard_tensors()
    assert not list(fresh.iterdir())


def test_a_damaged_file_is_built_anew(fresh, monkeypatch):
    fresh.mkdir()
    guard._path().write_bytes(b"half of it")
    assert not guard.guard_tensors()
    with guard.building():
        pass
    assert is_whole(guard._path()) and guard._path().read_bytes() != b"half of it"


def test_an_error_in_the_kernel_passes_through(fresh):
    with pytest.raises(ValueError, match="the learner's"), guard.building():
        raise ValueError("the learner's")
    assert guard._path().exists()


def test_the_set_up_cell_guards_the_first_tensor(kernels):
    script = """
from utils.lesson.start import start
start()
import os, torch
print((torch.ones(4).data_ptr() + 16) % os.sysconf("SC_PAGESIZE"))
"""
    assert re.fullmatch(r"Device: .*\n0\n", run_python(script))
