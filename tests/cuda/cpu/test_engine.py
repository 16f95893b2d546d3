"""The CPU engine: what the translator rewrites and leaves, and how blocks, threads and barriers run."""

import os
import re
import subprocess

import pytest
import torch

import utils.cuda.compile
from utils import load_cuda
from utils.cuda.cpu.translate import TranslationError, translate

# ---- translation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("launch", "config", "kernel"),
    [
        ("k<<<g, b>>>(x)", "g, b", "k"),
        ("k<float, 16><<<g, b, bytes, stream>>>(x)", "g, b, bytes, stream", "k<float, 16>"),
        ("k<(a > b)><<<1, f(2 >> 1)>>>(x)", "1, f(2 >> 1)", "k<(a > b)>"),
        ("k<A<B<int>>><<<dim3(1, (2)), 3>>>(x)", "dim3(1, (2)), 3", "k<A<B<int>>>"),
        ("my::inner::k<<<1, 2>>>(x)", "1, 2", "my::inner::k"),
        ("::k<<<1, 2>>>(x)", "1, 2", "::k"),
        ("k <<< 1 /* a > b */, 2 >>> (x)", "1 /* a > b */, 2", "k"),
        ("A<int>::k<<<1, 2>>>(x)", "1, 2", "A<int>::k"),
    ],
)
def test_launches(launch, config, kernel):
    squeezed = "".join(translate(f"void f() {{ {launch}; }}").split())
    call = f"::cuda_on_cpu::Configuration({config}), CUDA_ON_CPU_CALL({kernel})"
    start = f'::cuda_on_cpu::start_kernel("{kernel}", {call})(x);'
    assert squeezed == "".join(f"void f() {{ {start} }}".split())


@pytest.mark.parametrize("kernel", ["(*chosen)", "table[n]", 'table["a"]', "s.kernel", "pick(\n1)"])
def test_a_launch_through_a_pointer(kernel):
    name = kernel.replace('"', '\\"').replace("\n", " ")
    start = f'::cuda_on_cpu::ThroughPointer{{"{name}", ::cuda_on_cpu::Configuration(1, 2), {kernel}}}(x);'
    source = f"void kernel() {{}}\nvoid f() {{ {kernel}<<<1, 2>>>(x); }}"
    assert translate(source) == source.replace(f"{kernel}<<<1, 2>>>(x);", start)


@pytest.mark.parametrize(
    "text",
    [
        'const char* s = "k<<<1, 2>>>(x) __shared__";',
        "// k<<<1, 2>>>(x)",
        "/* __shared__ int x; */",
        'auto s = R"(k<<<1>>>)";',
        "int x = 1'000 << 2;",
    ],
)
def test_text_that_is_no_code_is_left_alone(text):
    assert translate(text) == text


def test_every_line_keeps_its_number():
    source = "void f() {\n  k\n <<<a,\n   b>>>(\n x);\n  __shared__\n   float t[2]\n [3];\n  here;\n}"
    translated = translate(source)
    assert translated.count("\n") == source.count("\n")
    assert translated[: translated.index("here")].count("\n") == source[: source.index("here")].count("\n")


def test_a_macro_stays_on_its_lines():
    launch, variable = "name_##T##_kernel \\\n <<<1, \\\n 2>>>(x);", "__shared__ \\\n int s;"
    source = f"#define GO(T) \\\n {launch} \\\n {variable} here\nthere"
    translated = translate(source)
    assert (
        "CUDA_ON_CPU_CALL(name_##T##_kernel" in translated
        and "SharedOf<s##__type_on_cpu> s##__shared_on_cpu" in translated
    )
    for word in ("here", "there"):
        assert translated[: translated.index(word)].count("\n") == source[: source.index(word)].count("\n")
    assert translated.count("\\\n") == source.count("\\\n")


@pytest.mark.parametrize("head", ["inline __device__ void", "struct S { __device__ void", "GLOBAL void", "M(2) void"])
def test_shared_variables_are_read_in_every_function(head):
    source = f"#define GLOBAL __global__\n{head} f() {{\n  __shared__ int s;\n}}" + "};" * ("struct" in head)
    assert "auto& s = s__shared_on_cpu.of_this_block();" in translate(source)


@pytest.mark.parametrize(
    ("declaration", "types"),
    [
        ("__shared__ float t[16][17];", "float t__type_on_cpu[16][17]"),
        ("__shared__ float a[4], b;", "float a__type_on_cpu[4], b__type_on_cpu"),
        ("__shared__ int *p, n, (*rows)[4];", "int *p__type_on_cpu, n__type_on_cpu, (*rows__type_on_cpu)[4]"),
        ("static __shared__ unsigned long long x[2 * N];", "unsigned long long x__type_on_cpu[2 * N]"),
        ("volatile __shared__ Pair<int, float> q[4];", "volatile Pair<int, float> q__type_on_cpu[4]"),
        ("float __shared__ __align__(16) v[8];", "float v__type_on_cpu[8]"),
        ("__shared__ alignas(8) typename T::Store s;", "typename T::Store s__type_on_cpu"),
        ("__shared__ union { int s; float f; } u;", "union { int s; float f; } u__type_on_cpu"),
    ],
)
def test_shared_declarations(declaration, types):
    translated = translate("void f() {" + declaration + "}")
    assert f"{{typedef {types}; static ::cuda_on_cpu::SharedOf<" in translated


def test_a_shared_variable_outside_of_functions_is_asked_for_in_those_that_use_it():
    source = (
        "__shared__ int total;\nvoid f() { total = 1; }\nvoid g(int total) { total = 1; }\nvoid h() { x.total = 1; }"
    )
    first, used, *unused = translate(source).splitlines()
    declared = 'static ::cuda_on_cpu::SharedOf<total__type_on_cpu> total__shared_on_cpu("total");'
    assert first == f"typedef int total__type_on_cpu; {declared}"
    assert used == "void f() { auto& total = total__shared_on_cpu.of_this_block(); { total = 1; }}"
    assert unused == source.splitlines()[2:]


@pytest.mark.parametrize(
    ("source", "own"),
    [
        ("__device__ void f() { dim3 gridDim(2), blockDim; g(gridDim, blockDim, threadIdx); }", "gridDim blockDim"),
        ("__global__ void k(const dim3& blockDim) { x[blockDim.x] = gridDim.x; }", "blockDim"),
        (
            "struct S { dim3 gridDim; __device__ int f() { return blockDim.x; } };\nvoid S::g() { f(gridDim); }",
            "gridDim",
        ),
        ("__device__ void f(Settings* s) { s->blockDim = 3; g(blockDim * 2, blockIdx); }", "blockDim"),
        ("void f() { for (uint3 blockIdx = {0}; ;) ; }\n#define GO k<<<blockIdx.x, 1>>>(blockIdx)", "blockIdx"),
    ],
)
def test_a_sources_own_names_of_built_in_variables(source, own):
    translated = translate(source)
    assert {word for word in re.findall(r"\w+_\b", translated)} >= {f"{name}_" for name in own.split()}
    assert all(f"{name}_" not in translated for name in {"threadIdx", "gridDim", "blockDim"} - set(own.split()))
    for name in own.split():
        alone = 1 if "s->" in source or "GO" in source else 0
        assert len(re.findall(rf"\b{name}\b", translated)) == alone


@pytest.mark.parametrize(
    "source",
    [
        "#define ON(...) <<<__VA_ARGS__>>>\nvoid f() { k<int> ON(1, 2)(x); }",
        "#define ON(grid, block) <<<grid, block>>>\nvoid f() { k<int> ON(1,\n 2)(x); }",
        "#define ON <<<1, 2>>>\nvoid f() { k<int> ON (x); }",
        "#define ON(kernel) kernel<<<1, 2>>>\nvoid f() { ON(k<int>)(x); }",
        "#define BEGIN <<<\n#define END >>>\nvoid f() { k<int> BEGIN 1, 2 END (x); }",
    ],
)
def test_a_launch_may_have_its_configuration_from_a_macro(source):
    translated = translate(source)
    assert '::cuda_on_cpu::start_kernel("k<int>", ::cuda_on_cpu::Configuration(' in translated
    assert translated.count("\n") == source.count("\n")


def test_a_macro_may_put_a_kernels_name_together():
    source = (
        "#define NAME(op) op##_f32\n#define OF(op, T) op##_##T\n#define GO(op) NAME(op)<<<1, 2>>>(x)\n"
        "__global__ void NAME(add)(float* x);\ntemplate <int n> __global__ void OF(mul, float)(float* x) {}\n"
        "void f() { NAME(add)<<<1, 2>>>(x); OF(mul, float)<3><<<1, 2>>>(x); GO(sub); }"
    )
    launched = re.findall(r'start_kernel\("(.*?)"', translate(source))
    assert launched == ["add_f32", "mul_float<3>"]


def test_what_an_editor_needs_keeps_its_lines():
    source = "#ifdef __INTELLISENSE__\n#define __shared__\n#undef __shared__\n#define N 1\n#endif\nint x;"
    assert translate(source) == source


def test_main_is_never_to_be_marked():
    for name, told in {
        "main": "of the host: read it in a kernel",
        "f": "of the host: mark it __device__, or read it",
    }.items():
        with pytest.raises(TranslationError, match=f"but `{name}` is a function {told}"):
            translate(f"int {name}() {{ return threadIdx.x; }}")


def test_dynamic_shared_declarations():
    inside = translate("void f() { extern __shared__ float s[]; }")
    place = 'static constexpr ::cuda_on_cpu::DynamicShared<s__type_on_cpu> s__shared_on_cpu("s")'
    name = "auto& s = s__shared_on_cpu.of_this_block();"
    assert inside == f"void f() {{ typedef float s__type_on_cpu[]; {place}; {name} }}"
    assert "typedef float s__type_on_cpu[][16];" in translate("void f() { float extern __shared__ s[][16]; }")
    outside, used = translate("extern __shared__ float s[];\nvoid f() { s[0] = 1; }").splitlines()
    assert (
        outside == f'typedef float s__type_on_cpu[]; {place}, s("s");'
        and used == f"void f() {{ {name} {{ s[0] = 1; }}}}"
    )


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("\nvoid f() { k<<<1, 2(x); }", 2, "no `>>>`"),
        ("void f() {\n\n <<<1, 2>>>(x); }", 3, "no kernel's name"),
        ("void f() { k<<<1, 2>>>; }", 1, "arguments in parentheses"),
        ('__global__ void f() {\n asm volatile("ret;"); }', 2, "`ret` needs a GPU"),
        ("__global__ void f() {\n g<<<1, 1>>>(); }", 2, "dynamic parallelism"),
        ("__global__ void f(cudaTextureObject_t t) {}", 1, "texture needs a GPU"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(source, line, message):
    with pytest.raises(TranslationError, match=message) as raised:
        translate(source)
    assert raised.value.line == line


def test_cpu_tensors_pass_for_cuda_tensors():
    assert translate("TORCH_LIBRARY_IMPL(mine, CUDA, m) {}") == "TORCH_LIBRARY_IMPL(mine, CPU, m) {}"
    source = 'x.is_cuda(); torch::kCUDA; c10::DeviceType::CUDA; x.cuda(); at::cuda::f(); "kCUDA"'
    assert translate(source) == 'x.is_cpu(); torch::kCPU; c10::DeviceType::CPU; x.cpu(); at::cuda::f(); "kCUDA"'


# ---- running ---------------------------------------------------------------------------------------------------------

CPP = r"""
at::Tensor places(int64_t gx, int64_t gy, int64_t gz, int64_t bx, int64_t by, int64_t bz);
void reverse(at::Tensor x, at::Tensor out);
void rounds(at::Tensor x, int64_t threads, int64_t leaving);
void counts(at::Tensor x, at::Tensor out);
void histogram(at::Tensor x, at::Tensor out);
void dynamic(at::Tensor x, at::Tensor out, int64_t bytes);
void say(int64_t blocks);
at::Tensor transpose(at::Tensor x);
void stray(at::Tensor x, int64_t wrong, int64_t kind);
void spin(int64_t blocks, int64_t threads);
void meet_for_ever(int64_t blocks, int64_t threads);
void crowd(int64_t dynamic_bytes);
"""
CUDA = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAException.h>
#include <stdio.h>

__global__ void places_kernel(long long* out) {
    size_t block = (blockIdx.z * gridDim.y + blockIdx.y) * size_t(gridDim.x) + blockIdx.x;
    size_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1 + block * 10000 + thread;
}
at::Tensor places(int64_t gx, int64_t gy, int64_t gz, int64_t bx, int64_t by, int64_t bz) {
    dim3 grid(gx, gy, gz), block(bx, by, bz);
    auto out = torch::zeros({gx * gy * gz, bx * by * bz}, torch::dtype(torch::kLong).device(torch::kCUDA));
    places_kernel<<<grid, block>>>((long long*)out.data_ptr<int64_t>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

template <typename T, int N> __global__ void reverse_kernel(const T* x, T* out) {
    __shared__ T s[N];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * N + t];
    __syncthreads();
    out[blockIdx.x * N + t] = s[N - 1 - t];
}
void reverse(at::Tensor x, at::Tensor out) {
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "reverse", [&] {
        reverse_kernel<scalar_t, 64><<<x.numel() / 64, 64>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// In every round each thread adds its neighbour's number of the round before; thread t leaves after t % leaving rounds
// where leaving is not 0.
__global__ void rounds_kernel(int* x, int leaving) {
    __shared__ int now[1024], next[1024];
    unsigned t = threadIdx.x, n = blockDim.x;
    now[t] = t;
    next[t] = 0;
    __syncthreads();
    for (int round = 0; round < 20; ++round) {
        if (leaving && round > int(t % leaving)) { x[t] = -round; return; }
        next[t] = now[t] + now[(t + 1) % n];
        __syncthreads();
        now[t] = next[t] % 1000003;
        __syncthreads();
    }
    x[t] = now[t];
}
void rounds(at::Tensor x, int64_t threads, int64_t leaving) {
    rounds_kernel<<<1, threads>>>(x.data_ptr<int>(), leaving);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

__global__ void counts_kernel(const int* x, int* out) {
    int v = x[threadIdx.x];
    int first = __syncthreads_count(v > 0);
    int second = __syncthreads_count(v > 1);
    int any = __syncthreads_or(v > 2), all = __syncthreads_and(v >= 0);
    if (threadIdx.x == 0) { out[0] = first; out[1] = second; out[2] = any; out[3] = all; }
}
void counts(at::Tensor x, at::Tensor out) { counts_kernel<<<1, x.numel()>>>(x.data_ptr<int>(), out.data_ptr<int>()); }

__global__ void histogram_kernel(const int* x, int* out, float* sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&out[x[i]], 1);
    if (i < n) atomicMax(&out[16], x[i]);
}
void histogram(at::Tensor x, at::Tensor out) {
    int n = x.numel();
    histogram_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<int>(), out.data_ptr<int>(), nullptr, n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

__global__ void dynamic_kernel(const float* x, float* out) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    float sum = 0;
    for (unsigned i = 0; i <= threadIdx.x; ++i) sum += s[i];
    out[threadIdx.x] = sum;
}
void dynamic(at::Tensor x, at::Tensor out, int64_t bytes) {
    dynamic_kernel<<<1, x.numel(), bytes>>>(x.data_ptr<float>(), out.data_ptr<float>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

__global__ void say_kernel() { if (threadIdx.x == 1) printf("block %d of %d\n", blockIdx.x, gridDim.x); }
void say(int64_t blocks) { say_kernel<<<blocks, 2>>>(); cudaDeviceSynchronize(); }

// One thread of one block goes wrong; the others wait for it at a barrier.
__device__ long long deep(long long n) {
    volatile long long room[64];
    room[n % 64] = n;
    return deep(n + 1) + room[n % 64];
}
template <int kind> __global__ void stray_kernel(float* x, long long wrong) {
    __shared__ float s[32];
    s[threadIdx.x] = 1;
    __syncthreads();
    if (blockIdx.x == 2 && threadIdx.x == 5) {
        if (kind == 0) x[wrong] = 1;
        if (kind == 1) x[0] = int(threadIdx.x) / int(wrong);
        if (kind == 2) x[0] = deep(wrong);
    }
    __syncthreads();
    x[blockIdx.x * 32 + threadIdx.x] = s[31 - threadIdx.x];
}
void stray(at::Tensor x, int64_t wrong, int64_t kind) {
    if (kind == 0) stray_kernel<0><<<4, 32>>>(x.data_ptr<float>(), wrong);
    if (kind == 1) stray_kernel<1><<<4, 32>>>(x.data_ptr<float>(), wrong);
    if (kind == 2) stray_kernel<2><<<4, 32>>>(x.data_ptr<float>(), wrong);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

__global__ void spin_kernel(volatile int* never) { while (*never == 0) {} }
void spin(int64_t blocks, int64_t threads) {
    static int never = 0;
    spin_kernel<<<blocks, threads>>>(&never);
}

__global__ void __launch_bounds__(1024) meet_kernel(volatile int* never) { while (*never == 0) __syncthreads(); }
void meet_for_ever(int64_t blocks, int64_t threads) {
    static int never = 0;
    meet_kernel<<<blocks, threads>>>(&never);
}

__launch_bounds__(32, 4) __global__ void crowd_kernel() {
    __shared__ char a[24 * 1024], b[20 * 1024];
    a[threadIdx.x] = b[threadIdx.x] = 1;
}
void crowd(int64_t dynamic_bytes) {
    crowd_kernel<<<3, 32, dynamic_bytes>>>();
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

__global__ void transpose_kernel(const float* x, float* out, int h, int w) {
    __shared__ float tile[16][17];
    int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
    if (r < h && c < w) tile[threadIdx.y][threadIdx.x] = x[r * w + c];
    __syncthreads();
    r = blockIdx.x * 16 + threadIdx.y, c = blockIdx.y * 16 + threadIdx.x;
    if (r < w && c < h) out[r * h + c] = tile[threadIdx.x][threadIdx.y];
}
at::Tensor transpose(at::Tensor x) {
    int h = x.size(0), w = x.size(1);
    auto out = torch::full({w, h}, NAN, x.options());
    transpose_kernel<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(
        x.data_ptr<float>(), out.data_ptr<float>(), h, w);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""
FUNCS = [
    "places",
    "reverse",
    "rounds",
    "counts",
    "histogram",
    "dynamic",
    "say",
    "transpose",
    "stray",
    "spin",
    "meet_for_ever",
    "crowd",
]


@pytest.fixture
def engine(monkeypatch):
    monkeypatch.setattr(utils.cuda.compile, "device", lambda: torch.device("cpu"))
    return load_cuda(CUDA, CPP, FUNCS)


@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1, 1, 1, 1), (5, 3, 2, 7, 3, 2), (1, 2, 3, 4, 1, 64), (1000, 1, 1, 33, 1, 1), (1, 1, 1, 1024, 1, 1)],
)
def test_every_thread_of_every_block_runs_once_in_its_place(engine, sizes):
    blocks, threads = sizes[0] * sizes[1] * sizes[2], sizes[3] * sizes[4] * sizes[5]
    expected = 1 + torch.arange(blocks)[:, None] * 10000 + torch.arange(threads)
    torch.testing.assert_close(engine.places(*sizes), expected)


@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1, 1025, 1, 1), (1, 1, 1, 1, 1, 65), (1, 65536, 1, 1, 1, 1), (1, 1, 65536, 1, 1, 1), (1, 1, 1, 32, 33, 1)],
)
def test_launches_beyond_the_limits_are_refused_in_cuda_s_words(engine, sizes):
    with pytest.raises(RuntimeError, match="CUDA error: invalid argument"):
        engine.places(*sizes)
    assert engine.places(1, 1, 1, 1, 1, 1).item() == 1, "the error is gone once it was told"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_threads_meet_at_a_barrier(engine, dtype):
    x = torch.randn(50, 64, dtype=dtype)
    out = torch.full_like(x, torch.nan)
    engine.reverse(x, out)
    torch.testing.assert_close(out, x.flip(1))


def rounds_reference(threads, leaving):
    now, gone = list(range(threads)), {}
    nxt = [0] * threads
    for r in range(20):
        here = [t for t in range(threads) if t not in gone]
        for t in here:
            if leaving and r > t % leaving:
                gone[t] = -r
        here = [t for t in here if t not in gone]
        for t in here:
            nxt[t] = now[t] + now[(t + 1) % threads]
        for t in here:
            now[t] = nxt[t] % 1000003
    return [gone.get(t, now[t]) for t in range(threads)]


@pytest.mark.parametrize(
    ("threads", "leaving"), [(1, 0), (17, 0), (256, 0), (1024, 0), (1, 3), (17, 3), (256, 7), (1024, 25)]
)
def test_barriers_in_a_loop_also_where_some_threads_leave_early(engine, threads, leaving):
    x = torch.full((threads,), 77, dtype=torch.int32)
    for _ in range(3):  # stacks of an earlier launch are used again
        engine.rounds(x, threads, leaving)
        assert x.tolist() == rounds_reference(threads, leaving)


@pytest.mark.parametrize("n", [1, 2, 31, 257])
def test_barriers_that_count(engine, n):
    x = torch.randint(0, 4, (n,), dtype=torch.int32)
    out = torch.full((4,), -1, dtype=torch.int32)
    engine.counts(x, out)
    assert out.tolist() == [int((x > 0).sum()), int((x > 1).sum()), int((x > 2).any()), 1]


def test_atomics_across_blocks(engine):
    x = torch.randint(0, 16, (100_003,), dtype=torch.int32)
    out = torch.zeros(17, dtype=torch.int32)
    engine.histogram(x, out)
    assert out[:16].tolist() == torch.bincount(x, minlength=16).tolist() and out[16] == x.max()


def test_dynamic_shared_memory(engine):
    x, out = torch.randn(300), torch.full((300,), torch.nan)
    engine.dynamic(x, out, 4 * 300)
    torch.testing.assert_close(out.double(), x.double().cumsum(0), rtol=0, atol=1e-4)
    with pytest.raises(RuntimeError, match="invalid argument"):
        engine.dynamic(x, out, 48 * 1024 + 1)


def test_blocks_print_in_order(engine, capfd):
    engine.say(100)
    assert capfd.readouterr().out == "".join(f"block {i} of 100\n" for i in range(100))


@pytest.mark.parametrize("shape", [(1, 1), (17, 1), (16, 16), (65, 100), (101, 37)])
def test_a_tile_with_a_guard(engine, shape):
    x = torch.randn(shape)
    torch.testing.assert_close(engine.transpose(x), x.t().contiguous())


# ---- what goes wrong leaves the process as it was --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (0, -(1 << 39), "an illegal memory access .* of stray_kernel<0> touches memory that is not there"),
        (0, 1 << 60, "an illegal memory access .* touches memory far outside: a trace"),
        (0, -(1 << 40), "an illegal memory access .* touches memory that is not there"),
        (1, 0, "divides a whole number by zero"),
        (2, 0, "needs more than 512 KB for its local variables"),
    ],
)
def test_a_fault_becomes_an_exception_that_names_block_and_thread(engine, kind, wrong, message):
    for _ in range(3):
        x = torch.zeros(4 * 32)
        with pytest.raises(RuntimeError, match=message) as raised:
            engine.stray(x, wrong, kind)
        assert "thread (5, 0, 0) of block (2, 0, 0)" in str(raised.value)
    test_threads_meet_at_a_barrier(engine, torch.float32)  # on the stacks that were left
    test_barriers_in_a_loop_also_where_some_threads_leave_early(engine, 256, 7)


def test_static_and_dynamic_shared_memory_together_have_a_limit(engine):
    engine.crowd(4 * 1024)
    with pytest.raises(RuntimeError, match="4097 bytes of dynamic .* and 45056 of static are more than the 49152"):
        engine.crowd(4 * 1024 + 1)
    engine.crowd(0)


@pytest.mark.alone
@pytest.mark.parametrize("function", ["spin", "meet_for_ever"])
@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (100, 64)])
def test_a_kernel_that_never_ends_can_be_interrupted(engine, function, blocks, threads):
    # From another process, as Jupyter does: Python's other threads stand still while a launch is under way.
    subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -INT {os.getpid()}"])
    with pytest.raises(KeyboardInterrupt):
        getattr(engine, function)(blocks, threads)
    test_every_thread_of_every_block_runs_once_in_its_place(engine, (5, 3, 2, 7, 3, 2))
