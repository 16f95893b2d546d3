"""Atomics and the standard library of libcu++: cuda/atomic and cuda/std."""

import pytest
import torch

from utils import compile_kernel
from utils.cuda.common.diagnostics import CompileError
from utils.cuda.kernel import compile_kernels

ATOMICS = r"""
#include <cuda/atomic>

template <class T>
__global__ void changes(T* x) {  // of an atomic in memory, and of one in shared memory
    cuda::atomic_ref<T, cuda::thread_scope_device> all(x[0]);
    __shared__ cuda::atomic<T, cuda::thread_scope_block> block;
    if (threadIdx.x == 0) block.store(0, cuda::memory_order_relaxed);
    __syncthreads();
    all.fetch_add(2, cuda::memory_order_relaxed);
    all -= 1;
    block++;
    cuda::atomic_ref<T>(x[2]).fetch_max(T(threadIdx.x));
    cuda::atomic_ref<T>(x[3]).fetch_min(T(threadIdx.x));
    T old = all.load();
    while (!all.compare_exchange_weak(old, T(old + 10))) {}
    __syncthreads();
    if (threadIdx.x == 0) x[1 + 3 * (blockIdx.x + 1)] = block;
}

__global__ void bits(unsigned* x) {
    cuda::std::atomic_ref<unsigned> all(x[0]);
    all |= 1u << threadIdx.x;
    cuda::std::atomic_ref<unsigned>(x[1]).fetch_xor(3u);
    cuda::std::atomic_ref<unsigned>(x[2]) &= ~(1u << threadIdx.x);
    if (threadIdx.x == 5) x[3] = cuda::atomic_ref<unsigned>(x[4]).exchange(7, cuda::memory_order_acq_rel);
}

template <cuda::memory_order releases, cuda::memory_order acquires>
__global__ void handed(int* x, int* flag) {  // from the first block to the last, which waits for it
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    if (blockIdx.x == 0) {
        x[0] = 42;
        ready.store(1, releases);
    } else if (blockIdx.x == gridDim.x - 1) {
        while (ready.load(acquires) == 0) {}
        x[1] = x[0];
    }
}

__global__ void lock(int* x, int* taken) {
    cuda::atomic<int, cuda::thread_scope_device>& mutex = *(cuda::atomic<int, cuda::thread_scope_device>*)taken;
    for (int free = 0; !mutex.compare_exchange_strong(free, 1, cuda::memory_order_acquire); free = 0) __nanosleep(20);
    x[0] += 1;
    mutex.store(0, cuda::memory_order_release);
}
"""


def launched(kernel, traced, launch, *args):
    """The arguments after a launch or a trace in which nothing is wrong."""
    if not traced:
        kernel[launch](*args)
        return args
    trace = kernel.trace[launch](*args)
    assert trace.ok, trace
    return trace.args


both = pytest.mark.parametrize("traced", [False, True])


@both
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("int", torch.int32),
        ("unsigned long long", torch.int64),
        ("float", torch.float32),
        ("double", torch.float64),
    ],
)
def test_changes_of_every_type(on_cpu, traced, name, dtype):
    x = torch.tensor([5, 0, 3, 50, 0, 0, 0, 0], dtype=dtype)
    (x,) = launched(compile_kernel(ATOMICS, f"changes<{name}>"), traced, (2, 33), x)
    assert x.tolist() == [5 + 66 * 11, 0, 32, 0, 33, 0, 0, 33]


@both
def test_bits(on_cpu, traced):
    x = torch.tensor([0, 9, -1, 0, 3], dtype=torch.int32)
    (x,) = launched(compile_kernel(ATOMICS, "bits"), traced, (1, 32), x)
    assert x.tolist() == [-1, 9, 0, 3, 7]


@both
@pytest.mark.parametrize("kernel", ["handed<cuda::memory_order_release, cuda::memory_order_acquire>", "lock"])
def test_what_is_released_is_there_for_whoever_acquires(on_cpu, traced, kernel):
    x, word = torch.zeros(2, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    x, _ = launched(compile_kernel(ATOMICS, kernel), traced, (40, 1), x, word)
    assert x.tolist() == ([40, 0] if kernel == "lock" else [42, 42])


def test_relaxed_accesses_order_nothing_else(on_cpu):
    x, flag = torch.zeros(2, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    kernel = compile_kernel(ATOMICS, "handed<cuda::memory_order_relaxed, cuda::memory_order_relaxed>")
    (problem,) = kernel.trace[4, 1](x, flag).problems
    of = ("x[0] = 42;", "x[1] = x[0];")
    lines = [number for number, line in enumerate(ATOMICS.splitlines(), 1) if line.strip() in of]
    assert problem.kind == "race" and sorted([problem.line, problem.other_line]) == lines


PARTS = r"""
#include <cuda/std/array>
#include <cuda/std/cmath>
#include <cuda/std/complex>
#include <cuda/std/cstdint>
#include <cuda/std/functional>
#include <cuda/std/limits>
#include <cuda/std/optional>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
#include <cuda/std/variant>

__device__ cuda::std::optional<float> root(float v) {
    if (v < 0) return cuda::std::nullopt;
    return cuda::std::sqrt(v);
}

__global__ void parts(float* x) {
    cuda::std::array<float, 4> a = {1, 2, 3, 4};
    auto [first, second] = cuda::std::make_tuple(10.0f, cuda::std::int8_t(20));
    cuda::std::swap(a[0], a[3]);
    cuda::std::complex<float> z(3, 4);
    cuda::std::variant<int, float> either = 2.5f;
    x[0] = a[0] + a.back();
    x[1] = first + second + cuda::std::get<1>(cuda::std::make_pair(0, 5));
    x[2] = cuda::std::numeric_limits<float>::max();
    x[3] = root(16).value_or(-1) + root(-1).value_or(-1);
    x[4] = cuda::std::abs(z) + cuda::std::get<float>(either);
    x[5] = cuda::std::plus<float>()(1, 2) + cuda::std::is_same_v<cuda::std::remove_const_t<const int>, int>;
}
"""


@both
def test_types_and_functions_of_the_standard_library(on_cpu, traced):
    (x,) = launched(compile_kernel(PARTS, "parts"), traced, (1, 1), torch.zeros(6))
    assert x.tolist() == [5, 35, torch.finfo(torch.float32).max, 3, 7.5, 4]


BITS = r"""
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/span>
#include <cstdint>

__device__ float sum(cuda::std::span<const float> values) {
    float all = 0;
    for (float v : values) all += v;
    return all;
}

__global__ void bits(unsigned* x, const float* f) {
    using namespace cuda::std;
    unsigned v = x[0];
    x[1] = cuda::std::bit_cast<unsigned>(f[0]);
    x[2] = popcount(v) + 100 * countl_zero(v) + 10000 * countr_zero(v);
    x[3] = rotl(v, 8);
    x[4] = rotr(uint16_t(v), 36);
    x[5] = bit_ceil(v) + has_single_bit(v);
    x[6] = bit_floor(v) + bit_width(v);
    x[7] = countl_one(uint8_t(0xe1)) + 10 * countr_one(uint8_t(0xe7)) + 100 * countl_zero(uint8_t(0));
    float rows[4] = {1, 2, 3, 4};
    cuda::std::array<float, 2> two = {5, 6};
    cuda::std::span<const float> all(f, 8);
    static_assert(decltype(cuda::std::span(rows))::extent == 4);
    x[8] = sum(rows) + sum(two) + sum(all.subspan(2, 3)) + sum(all.last(2)) + sum(all.first<1>());
    cuda::std::span<unsigned>{x, 10}.back() = all.size_bytes() + all.empty();
}
"""


@both
def test_bits_and_spans(on_cpu, traced):
    f, v = torch.arange(1.0, 9.0), 0b1011_0000
    x, _ = launched(compile_kernel(BITS, "bits"), traced, (1, 1), torch.tensor([v] + [0] * 9, dtype=torch.int32), f)
    rotated = (v >> 4) | (v & 0xF) << 12
    bits = [v, 0x3F800000, 3 + 100 * 24 + 10000 * 4, v << 8, rotated, 256, 128 + 8, 3 + 30 + 800]
    assert x.tolist() == [*bits, 10 + 11 + (3 + 4 + 5) + (7 + 8) + 1, 32]


def test_a_span_that_reaches_too_far_is_reported(on_cpu):
    source = BITS.replace("all(f, 8)", "all(f, 9)")
    kernel = compile_kernel(source, "bits")
    problem = kernel.trace[1, 1](torch.zeros(10, dtype=torch.int32), torch.zeros(8)).problems[0]
    assert problem.kind == "out_of_bounds" and "reads f[8], but f has 8 elements" in str(problem)


WAITING = r"""
#include <cuda/cmath>
#include <cuda/functional>
#include <cuda/latch>
#include <cuda/semaphore>
__device__ int count;
__global__ void taking(cuda::binary_semaphore<cuda::thread_scope_device>* one, int* x) {
    one->acquire();
    x[0] = x[0] + 1;
    one->release();
}
__global__ void counting(int* x) {
    __shared__ alignas(cuda::latch<cuda::thread_scope_block>) char room[sizeof(cuda::latch<cuda::thread_scope_block>)];
    __shared__ int written[64];
    auto* all = reinterpret_cast<cuda::latch<cuda::thread_scope_block>*>(room);
    if (threadIdx.x == 0) new (all) cuda::latch<cuda::thread_scope_block>(64);
    __syncthreads();
    written[threadIdx.x] = threadIdx.x;
    all->arrive_and_wait();
    x[threadIdx.x] = written[63 - threadIdx.x];
    if (threadIdx.x == 0) {
        cuda::std::counting_semaphore<4> some(2);
        x[64] = 10 * some.try_acquire() + 10 * some.try_acquire() + some.try_acquire();
        some.release(3);
        x[65] = some.try_acquire() + cuda::ceil_div(7u, 2) + cuda::round_up(13, 8) + cuda::round_down(13, 8ll);
        x[66] = cuda::ilog2(255) + cuda::ilog10(1000u) + cuda::ceil_div(0, 3);
        x[67] = cuda::maximum<int>()(3, 5) * cuda::minimum<>()(4, 2.5);
    }
}
"""


@both
def test_latches_and_semaphores(on_cpu, traced):
    taking, counting = compile_kernels(WAITING, ["taking", "counting"])
    _, x = launched(taking, traced, (40, 1), torch.ones(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int32))
    assert x.item() == 40
    (x,) = launched(counting, traced, (1, 64), torch.zeros(68, dtype=torch.int32))
    assert x.tolist() == [*range(63, -1, -1), 20, 1 + 4 + 16 + 8, 7 + 3 + 0, 12]


def test_what_only_libcu_has_is_named(on_cpu):
    source = "#include <cuda/std/mdspan>\n__global__ void k(cuda::std::mdspan<float, cuda::std::dims<2>> m) {}"
    message = r"line 1: <cuda/std/mdspan>: the CPU engine does not have this header of libcu\+\+: "
    message += "write the part that you need"
    with pytest.raises(CompileError, match=message):
        compile_kernel(source, "k")
    compile_kernel(
        "#include <cuda/std/mdspan>\n#include <cuda/std/bit>\n__global__ void k() { cuda::std::byte b{3}; }", "k"
    )
    asks = "__constant__ int c;\n__global__ void k(int* x) { *x = __isConstant(&c); }"
    with pytest.raises(CompileError, match="`__isConstant`: the CPU engine does not have address spaces of constants"):
        compile_kernel(asks, "k")
    source = "#include <cuda_fp4.h>\n__global__ void k(__nv_fp4x2_e2m1* out, float2* x) { *out = __nv_fp4x2_e2m1(*x); }"
    with pytest.raises(CompileError, match="`__nv_fp4x2_e2m1`: the CPU engine does not have floats of 4 and 6 bits"):
        compile_kernel(source, "k")
    source = source.replace("__nv_fp4x2_e2m1* out", "int* out").replace("__nv_fp4x2_e2m1(*x)", "1")
    compile_kernel(source, "k")  # a header that it does not use


BUILT_IN = r"""
__global__ void all_of_them(int* x, unsigned long long* z, double* d) {
    int v = __nv_atomic_fetch_add(x, 3, __NV_ATOMIC_RELAXED), old = 0;
    v += __nv_atomic_fetch_sub(x, 1, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_BLOCK);
    __nv_atomic_add(x, 3, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    __nv_atomic_sub(x, 3, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_CLUSTER);
    __nv_atomic_min(x, 30, __NV_ATOMIC_RELAXED);
    __nv_atomic_max(x, -30, __NV_ATOMIC_RELAXED);
    __nv_atomic_and(z, 255, __NV_ATOMIC_RELAXED);
    __nv_atomic_or(z, 1, __NV_ATOMIC_RELAXED);
    __nv_atomic_xor(z, 2, __NV_ATOMIC_SEQ_CST);
    *d += __nv_atomic_fetch_add(d, 2.5, __NV_ATOMIC_RELAXED);
    __nv_atomic_store_n(x + 1, v, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);  // 23
    __nv_atomic_load(x, &v, __NV_ATOMIC_ACQUIRE);  // 12
    __nv_atomic_exchange(x + 2, &v, &old, __NV_ATOMIC_ACQUIRE);
    x[3] = old;
    __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_DEVICE);
    bool done = __nv_atomic_compare_exchange_n(x + 2, &old, 5, false, __NV_ATOMIC_ACQUIRE, __NV_ATOMIC_RELAXED);
    x[4] = old + done;  // 12 was there, and not 10
    x[5] = __nv_atomic_compare_exchange(x + 2, &old, &v, true, __NV_ATOMIC_ACQUIRE, __NV_ATOMIC_RELAXED);
}
__global__ void handed(int* x, int* flag) {
    if (blockIdx.x == 0) {
        x[0] = 42;
        __nv_atomic_store_n(flag, 1, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
    } else {
        while (__nv_atomic_load_n(flag, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE) == 0) {}
        x[1] = x[0];
    }
}
"""


@pytest.mark.usefixtures("on_cpu")
def test_the_atomics_that_are_built_into_nvcc():
    x, z = torch.full((6,), 10, dtype=torch.int32), torch.tensor([0x1FF])
    d = torch.ones(1, dtype=torch.float64)
    compile_kernel(BUILT_IN, "all_of_them")[1, 1](x, z, d)
    assert (x.tolist(), z.item(), d.item()) == ([12, 23, 12, 10, 12, 1], 0xFD, 4.5)


@pytest.mark.usefixtures("on_cpu")
def test_the_order_of_a_built_in_atomic_hands_over_what_was_written():
    x, flag = torch.zeros(2, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    assert compile_kernel(BUILT_IN, "handed").trace[2, 1](x, flag).ok
    relaxed = BUILT_IN.replace("1, __NV_ATOMIC_RELEASE", "1, __NV_ATOMIC_RELAXED")
    assert {each.kind for each in compile_kernel(relaxed, "handed").trace[2, 1](x, flag).problems} == {"race"}
