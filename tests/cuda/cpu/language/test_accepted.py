"""What plain nvcc accepts and a C++ compiler does not, or not with this meaning."""

import subprocess
from pathlib import Path

import pytest
import torch

from utils import load_cuda
from utils.cuda.cpu import build, library
from utils.cuda.cpu.translate import translate
from utils.cuda.kernel import compile_kernel, compile_kernels
from utils.ground.system import cxx_compiler

KERNELS = r"""
#if !defined(__CUDACC__) || !defined(__NVCC__) || __CUDACC_VER_MAJOR__ < 12 || __cplusplus != 201703L
#error "not what nvcc says of itself"
#endif
#include <cstdio>

__device__ float lerp(float a, float b, float t) { return a + t * (b - a); }
__global__ void own_lerp(float* x) { x[0] = lerp(x[0], x[1], x[2]); }

__device__ int count(int* p) { atomicAdd(p, 1); }
__global__ void no_return(int* p) { count(p); }

__global__ void limits(long long* x) { x[0] = INT_MAX, x[1] = LLONG_MIN, x[2] = CHAR_BIT; }

__global__ void narrowing(int* x) {
    double wide = 2.9;
    int a[] = {1.5, wide};
    typeof(a[0]) b = a[1];
    struct { int p; float q; } anonymous = {.p = 1, .q = 2.5f};
    union { int i; float f; };
    i = 3;
    x[0] = a[0], x[1] = b, x[2] = anonymous.p + 2 * anonymous.q, x[3] = i;
}

#define ON_CHIP __shared__
#define ARRAY(T, name) __shared__ T name[32]
#define NAMED(T, name) __shared__ T name##_tile[32];
__shared__ float of_all[32];
__shared__ int total;
__device__ void put(int i, float v) { of_all[i] = v; }
struct Sums {
    __device__ void add(int v) { atomicAdd(&total, v); }
    float of_all;  // its own
};
__global__ void shared_everywhere(float* x) {
    extern float __shared__ dynamic[];
    __shared__ union {
        float f[32];
        int i[32];
    } both;
    ON_CHIP float a[32], b, *place;
    float __shared__ __align__(16) after[2][32];
    __shared__ struct Pair { int first; float second; } pair;
    ARRAY(float, made);
    NAMED(float, pasted)
    int i = threadIdx.x;
    if (i == 0) b = 1, place = a, pair.first = 2, pair.second = 4, total = 0;
    __syncthreads();
    put(i, i);
    Sums().add(i);
    dynamic[i] = both.f[i] = after[1][i] = made[i] = pasted_tile[i] = a[i] = i;
    __syncthreads();
    int j = 31 - i;
    x[i] = dynamic[j] + both.f[j] + (both.i[j] == __float_as_int(j)) + after[1][j] + made[j] + pasted_tile[j];
    x[i] += place[j] + b + pair.first + pair.second + of_all[j] + total;
}

enum Kind { first, second };
enum class Letter : char { a = 'a', b = 'b' };
struct Large { float values[1000]; int n; };
__global__ void qualified(volatile int* out, const volatile float* x, const int* const __restrict__ one, bool yes,
                          Kind kind, Letter letter, const __grid_constant__ Large large, float (*rows)[4],
                          unsigned char byte, int more[], const float4 four) {
    out[0] = x[0] + one[0] + yes + (kind == second) + (letter == Letter::b) + large.values[999] + large.n + rows[1][2];
    out[0] += byte + more[1] + four.w;
}

struct Five {
    int v;
    __device__ Five() : v(5) {}
};
__global__ void cases(int* x) {
    switch (threadIdx.x) {
        case 9: Five nobody; x[0] = nobody.v; break;
        case 0: int first = 5; x[0] = first; break;
        case 1: auto doubled = [](int v) { return 2 * v; }; x[1] = doubled(3);
        case 2: int kept = 7; x[2] = kept; break;
        case 3: kept = 8; x[3] = kept; break;
        default: float last = 9.5f; x[4] = last;
    }
}

#include <cuda_fp16.h>
enum Small { none, one, two };
__global__ auto overloads(float* x, half* h, long long* w) -> void {
    x[0] = min(one, two) + max(one, 7) + max(two, none), x[1] = max(h[0], 0.25f) + min(3.0f, h[0]);
    atomicOr(w, 4ll), atomicXor(w + 1, 1), atomicAnd(w + 2, -2ll);
    float2 old = atomicAdd((float2*)(x + 2), make_float2(1, 2));
    float4 all = atomicAdd((float4*)(x + 4), float4{1, 2, 3, 4});
    x[8] = old.y + all.w;
    if (x[0] > 0) goto end;
    x[8] = -1;
end:
}

extern __shared__ __align__(16) unsigned char raw[];
__device__ void put_first(__shared__ float* to, float v) { to[0] = v; }
__global__ void raw_memory(float* x) {
    put_first((float*)raw, 5);
    reinterpret_cast<float2*>(raw)[1].x = 6;
    x[0] = reinterpret_cast<float*>(raw + 8)[0] + *(float*)raw;
}
__global__ void bools(int* x, bool* flags) {
    bool b = false, c = true, d = false;
    int r = b++, i = 0;
    r += 2 * b + 4 * c++ + 8 * ++b;
    ++d;
    x[0] = r + 16 * d + 32 * flags[i]++ + 64 * flags[1]++;
    i++;
    x[1] = i;
}
__global__ void one_value(float* x) {
    extern __shared__ float value;
    value = 7;
    x[0] = value;
}

__global__ void referring(int* x, const int& n) { x[0] = n; }

__global__ void referring_to_array(float (&x)[4]) { x[0] = 1; }

__global__ void jumped(int* x, int m) {
    switch (m) {
        case 0:
            x[0] = 1;
            __shared__ int one, more[4];
            one = 4, more[3] = 5;
            [&] { x[0] = one + sizeof(more); }();
            x[1] = more[3];
            break;
        case 1:
            one = 9, x[0] = one;
            if (x[2]) goto end;
            extern __shared__ int given[];
            given[0] = 7, x[1] = given[0];
    }
end:
    x[3] = 2;
}

struct Ignored { __shared__ float values[4]; };
__device__ constexpr float operator""_half(long double d) { return float(d * 0.5); }
__global__ void little(int* x, int* end) {
    x[0] = ::printf("%s, no number: 100%%\n", "a text"), x[1] = printf("two: %*d\n", 5, 7), x[2] = printf("none\n");
    x[3] = ::threadIdx.x + (::blockDim.x), x[4] = 90.0_half, x[5] = sizeof(Ignored);
    end[0] = __NVCC_DIAG_PRAGMA_SUPPORT__;
}
__global__ void __block_size__((32, 1, 1)) sized() {}

__global__ void own_names(int* x, dim3 gridDim) {
    struct { int blockDim; } settings = {5};
    x[0] = gridDim.x + settings.blockDim;
    x[1] = threadIdx.x + 1;
    int threadIdx = 9;
    x[2] = threadIdx;
}

#ifdef block  // macros with names that the engine uses, from options or from the source
#define thread 4
#define start 5
#define Launch 6
#define Shared 7
#define a 8
__global__ void macros(int* x) {
    __shared__ int s[2];
    s[threadIdx.x] = A + block + thread + start + Launch + Shared + a;
    x[blockIdx.x * blockDim.x + threadIdx.x] = s[threadIdx.x] + gridDim.x;
}
void launch_macros(int* x) { macros<<<2>>>(x); }
#endif
"""


def kernel(name):
    names = ["own_lerp", "no_return", "limits", "narrowing", "shared_everywhere", "qualified"]
    names += ["cases", "referring", "own_names", "overloads", "raw_memory", "one_value", "bools"]
    names += ["jumped", "little", "referring_to_array"]
    return dict(zip(names, compile_kernels(KERNELS, names), strict=True))[name]


pytestmark = pytest.mark.usefixtures("on_cpu")


def test_a_source_may_define_what_only_newer_standards_have():
    x = torch.tensor([1.0, 3.0, 0.25])
    kernel("own_lerp")[1, 1](x)
    assert x[0] == 1.5


def test_a_function_may_end_without_its_return():
    x = torch.zeros(1, dtype=torch.int32)
    kernel("no_return")[2, 32](x)
    assert x.item() == 64


def test_the_limits_of_types_need_no_include():
    x = torch.zeros(3, dtype=torch.int64)
    kernel("limits")[1, 1](x)
    assert x.tolist() == [2**31 - 1, -(2**63), 8]


def test_narrowing_designated_initialisers_typeof_and_anonymous_unions():
    x = torch.zeros(4, dtype=torch.int32)
    kernel("narrowing")[1, 1](x)
    assert x.tolist() == [1, 2, 6, 3]


def test_shared_variables_in_every_form():
    x, i = torch.zeros(32), torch.arange(32.0)
    kernel("shared_everywhere")[2, 32, 128](x)
    assert torch.equal(x, 7 * (31 - i) + 1 + 1 + 2 + 4 + i.sum())
    assert kernel("shared_everywhere").trace[1, 32, 128](torch.zeros(32)).ok


def test_qualifiers_and_types_in_a_signature():
    out, x = torch.zeros(1, dtype=torch.int32), torch.tensor([1.0])
    large = torch.zeros(1001)
    large[999] = 7
    large[1000:].view(torch.int32)[0] = 9
    raw, four = large.numpy().tobytes(), torch.tensor([0.0, 0, 0, 5]).numpy().tobytes()
    rows, ints = torch.arange(8.0).view(2, 4), torch.tensor([3, 4], dtype=torch.int32)
    one = (1).to_bytes(4, "little")
    for launched in (kernel("qualified"), kernel("qualified").trace):
        args = (out, x, ints, True, one, b"b", raw, rows, 200, ints, four)
        result = launched[1, 1](*args)
        got = result.args[0] if result else out
        assert got.item() == 1 + 3 + 1 + 1 + 1 + 7 + 9 + 6 + 200 + 4 + 5


def test_a_case_may_jump_over_a_variable_with_an_initial_value():
    for threads, expected in (1, [5, 0, 0, 0, 0]), (2, [5, 6, 7, 0, 0]), (5, [5, 6, 7, 8, 9]):
        x = torch.zeros(5, dtype=torch.int32)
        kernel("cases")[1, threads](x)
        assert x.tolist() == expected


def test_a_reference_compiles_and_cannot_be_launched():
    with pytest.raises(TypeError, match=r"argument 2 of referring \(const int& n\) is a reference"):
        kernel("referring")[1, 1](torch.zeros(1, dtype=torch.int32), 3)
    with pytest.raises(TypeError, match=r"argument 1 of referring_to_array \(float \(&\) \[4\] x\) is a reference"):
        kernel("referring_to_array")[1, 1](torch.zeros(4))


def test_shared_on_a_parameter_means_nothing():
    x = torch.zeros(1)
    compile_kernel("__global__ void k(float* x, __shared__ float* s) { *s = 1; }", "k")[1, 1](torch.zeros(1), x)
    assert x.item() == 1


@pytest.mark.parametrize(("m", "expected"), [(0, [20, 5, 0, 2]), (1, [9, 7, 0, 2])])
def test_a_jump_may_lead_over_a_shared_variable(m, expected):
    x = torch.zeros(4, dtype=torch.int32)
    kernel("jumped")[1, 1, 4](x, m)
    assert x.tolist() == expected
    assert kernel("jumped").trace[1, 1, 4](torch.zeros(4, dtype=torch.int32), m).args[0].tolist() == expected


def test_printf_counts_its_arguments_and_other_small_things():
    x = torch.zeros(7, dtype=torch.int32)
    kernel("little")[1, 1](x, x[6:])
    assert x.tolist() == [1, 2, 0, 1, 45, 16, 1]


def test_a_kernel_s_own_names_hide_the_built_in_ones():
    x = torch.zeros(3, dtype=torch.int32)
    kernel("own_names")[1, 1](x, torch.tensor([7, 1, 1], dtype=torch.int32).numpy().tobytes())
    assert x.tolist() == [12, 1, 9]


def test_enums_halves_and_pairs_have_cuda_s_overloads():
    x, h, w = torch.zeros(12), torch.tensor([1.5], dtype=torch.float16), torch.tensor([1, 3, 7])
    x[2:8] = torch.arange(6)
    kernel("overloads")[1, 1](x, h, w)
    assert x.tolist() == [1 + 7 + 2, 1.5 + 1.5, 1, 3, 3, 5, 7, 9, 1 + 5, 0, 0, 0] and w.tolist() == [5, 2, 6]


def test_dynamic_shared_memory_is_cast_wherever_it_is_declared():
    x = torch.zeros(1)
    kernel("raw_memory")[1, 1, 16](x)
    assert x.item() == 11
    kernel("one_value")[1, 1, 4](x)
    assert x.item() == 7


def test_an_incremented_bool_is_true():
    x, flags = torch.zeros(2, dtype=torch.int32), torch.tensor([False, True])
    kernel("bools")[1, 1](x, flags)
    assert x.tolist() == [2 + 4 + 8 + 16 + 64, 1] and flags.tolist() == [True, True]


def test_macros_may_have_the_engine_s_names():
    x = torch.zeros(4, dtype=torch.int32)
    (macros,) = compile_kernels(KERNELS, ["macros"], ("-DA=1", "-D", "block=2", "-DNDEBUG"))
    macros[2, 2](x)
    assert x.tolist() == [1 + 2 + 4 + 5 + 6 + 7 + 8 + 2] * 4


def test_elements_have_designators():
    source = "__global__ void k(int* x) { int a[4] = {[0] = 1, [2] = 5}, b[] = {[2] = 7, 8}; x[0] = a[2] + b[3]; "
    source += "x[1] = a[1] + a[3] + b[0]; auto f = [=] { return a[0]; }; x[2] = f() + sizeof(b) / sizeof(b[0]); }"
    x = torch.full((3,), -1, dtype=torch.int32)
    compile_kernel(source, "k")[1, 1](x)
    assert x.tolist() == [13, 0, 5]


@pytest.mark.parametrize("nothing", ["nothing", "typename std::conditional<true, void, int>::type"])
def test_a_kernel_s_void_may_have_another_name(nothing):
    source = f"#include <type_traits>\nusing nothing = void;\n__global__ {nothing} k(int* x) {{ x[0] = 1; }}"
    x = torch.zeros(1, dtype=torch.int32)
    compile_kernel(source, "k")[1, 1](x)
    assert x.item() == 1


def test_parameters_of_unusual_types():
    source = "struct Opaque;\n__global__ void k(int out[__restrict__], Opaque* q, void* v) { out[0] = !q; }"
    x = torch.zeros(1, dtype=torch.int32)
    k = compile_kernel(source, "k")
    k[1, 1](x, x, x)
    assert x.item() == 0 and k.trace[1, 1](x, x, x).ok


@pytest.mark.parametrize("name", ["threadIdx", "blockIdx", "blockDim", "gridDim"])
def test_the_types_of_the_built_in_variables(name):
    kind = "dim3" if name.endswith("Dim") else "uint3"
    source = (
        f"#include <type_traits>\ntemplate <class T, class U> constexpr bool same = std::is_same_v<T, U>;\n"
        f"__global__ void k(int* x) {{ auto t = {name}; static_assert(same<decltype({name}), const {kind}>); "
        f"static_assert(same<decltype(({name})), const {kind}&> && same<decltype(t), {kind}>); "
        f"static_assert(same<decltype({name}.x), unsigned> && same<decltype({name} . y + 1), unsigned>); x[0] = t.x; }}"
    )
    x = torch.zeros(1, dtype=torch.int32)
    assert compile_kernel(source, "k").trace[1, 1](x).ok
    compile_kernel(source, "k")[1, 1](x)


def test_the_standard_is_the_one_that_is_asked_for():
    source = "template <class T> concept Any = true;\n__global__ void k(long* x) { x[0] = __cplusplus; }"
    x = torch.zeros(1, dtype=torch.int64)
    compile_kernel(source, "k", options=("--std=c++20",))[1, 1](x)
    assert x.item() >= 202002


HOST = r"""
#include <torch/extension.h>
#include <array>
#include <map>
#include <memory>
#include <cuda_fp16.h>
#include <cuda_bf16.h>

__global__ void place(int* x) {
    x[blockIdx.x * blockDim.x + threadIdx.x] = gridDim.x * 100 + blockIdx.x * 10 + threadIdx.x;
}
struct Sizes {
    dim3 gridDim, blockDim;
    explicit Sizes(int n) : gridDim(n), blockDim(4) {}
    void launch(int* x) const;
};
void Sizes::launch(int* x) const { place<<<gridDim, blockDim>>>(x); }
#define ON(grid, block) <<<grid, block>>>

torch::Tensor named(torch::Tensor x) {
    const dim3 gridDim(2);
    uint3 blockIdx = {1, 2, 3};
    dim3 blockDim = dim3(4), threadIdx;
    place<<<gridDim, blockDim>>>(x.data_ptr<int>());
    Sizes(gridDim.x).launch(x.data_ptr<int>() + 8);
    place ON(gridDim, blockDim)(x.data_ptr<int>() + 16);
    x[0] += (int)(blockIdx.z + threadIdx.x);
    return x;
}

template <class T> __global__ void fill(T* x, const float* none, T value = T(3)) {
    x[threadIdx.x] = value + (none == nullptr);
}
__global__ void fill_int_kernel(int* x, int* none, int4 four, int n = 5) { x[threadIdx.x] = four.y + n + (none == 0); }
#define FILL(type) fill_##type##_kernel \
    <<<1, 4>>>(x.data_ptr<type>(), NULL, {1, 2, 3, 4}, 5)
torch::Tensor launches(torch::Tensor x) {
    FILL(int);
    fill<int> \
        <<<1, 4>>>(x.data_ptr<int>() + 4, 0);
    void (*chosen)(int*, const float*, int) = fill;
    chosen<<<1, 4>>>(x.data_ptr<int>() + 8, NULL, 'a');
    return x;
}

// What nvcc takes before `<<<`: any postfix expression. Each adds 10, and the calls of pick are counted.
__global__ void add_ten(int* x) { atomicAdd(x, 10); }
template <int n> __global__ void add(int* x) { atomicAdd(x, n); }
using Adds = void (*)(int*);
int picks = 0;
static Adds pick(int n) { picks++; return n ? add_ten : nullptr; }
struct Chosen {
    Adds kernel;
    template <int n> static constexpr Adds fixed = add<n>;
    Adds get() const { return kernel; }
    void go(int* x) { kernel<<<1, 1>>>(x); this->kernel<<<1, 1>>>(x); }
};
template <class T> void of_template(T chosen, int* x) {
    chosen.template fixed<10><<<1, 1>>>(x), T::template fixed<10><<<1, 1>>>(x);
}
#define LAUNCH(kernel) kernel<<<1, 1>>>(x); (kernel)<<<1, 1>>>(x)
torch::Tensor pointers(torch::Tensor counts) {
    int* x = counts.data_ptr<int>();
    Chosen s{add_ten}, *t = &s;
    std::map<std::string, Adds> table{{"a", add_ten}};
    std::tuple<Adds, int> both{add_ten, 1};
    std::array<Adds, 2> two{add<10>, add_ten};
    std::unique_ptr<Adds> own(new Adds(add_ten));
    s.kernel<<<1, 1>>>(x), t->kernel<<<1, 1>>>(x);
    if (picks == 0) pick(1)<<<2, 64>>>(x); else (t ? add<3> : add<4>)<<<1, 1>>>(x);
    two.at(0)<<<1, 1>>>(x), table["a"]<<<1, 1>>>(x), std::get<0>(both)<<<1, 1>>>(x), std::get<Adds>(both)<<<1, 1>>>(x);
    for (int i = 0; i < 2; i++) two[i]<<<1, 1>>>(x);
    if (x) (t ? add_ten : add<4>)<<<1, 1>>>(x);
    [] { return add_ten; }()<<<1, 1>>>(x), Chosen{add_ten}.get()<<<1, 1>>>(x), Adds(add_ten)<<<1, 1>>>(x);
    (*own)<<<1, 1>>>(x), (&add<10>)<<<1, 1>>>(x);
    LAUNCH(s.kernel); LAUNCH(table["a"]);
    s.go(x), of_template(s, x);
    x[1] = picks;
    return counts;
}

torch::Tensor untyped(torch::Tensor x) {
    int *p = x.data_ptr<int>(), value = 6;
    const float* none = nullptr;
    void* args[] = {&p, &none, &value};
    const void* chosen = (const void*)fill<int>;
    TORCH_CHECK(cudaLaunchKernel(chosen, dim3(1), dim3(4), args, 0, 0) == cudaSuccess);
    TORCH_CHECK(cudaLaunchKernel((const void*)&p, dim3(1), dim3(4), args, 0, 0) == cudaErrorInvalidDeviceFunction);
    cudaGetLastError();
    p += 4;
    TORCH_CHECK(cudaLaunchKernel((void*)fill<int>, 1, 4, args) == cudaSuccess);
    return x;
}

template <class T> __global__ void half_kernel(const T* x, T* out) {
    out[threadIdx.x] = __hadd(x[threadIdx.x], x[threadIdx.x]);  // torch's build leaves out half's operators
}
torch::Tensor halves(torch::Tensor x) {
    auto out = torch::empty_like(x);
    half_kernel<<<1, x.numel()>>>(reinterpret_cast<const __half*>(x.data_ptr<at::Half>()),
                                  (__half*)out.data_ptr<at::Half>());
    c10::Half most = std::max(c10::Half(1.0f), c10::Half(__float2half(2.0f)));
    __half back = most;
    c10::BFloat16 also = __float2bfloat16(3.0f);
    TORCH_CHECK(__half2float(back) == 2 && (float)also == 3);
    return out;
}
"""
HOST_CPP = "torch::Tensor named(torch::Tensor x);\ntorch::Tensor launches(torch::Tensor x);\n"
HOST_CPP += "torch::Tensor pointers(torch::Tensor counts);\n"
HOST_CPP += "torch::Tensor halves(torch::Tensor x);\ntorch::Tensor untyped(torch::Tensor x);\n"


@pytest.fixture(scope="module")
def host():
    return load_cuda(HOST, HOST_CPP, ["named", "launches", "pointers", "halves", "untyped"])


def test_host_code_may_name_its_variables_like_the_built_in_ones(host):
    x = host.named(torch.zeros(24, dtype=torch.int32))
    expected = torch.tensor([200 + 10 * b + t for b in range(2) for t in range(4)], dtype=torch.int32).repeat(3)
    expected[0] += 3 + 1
    assert torch.equal(x, expected)


def test_arguments_become_what_the_kernel_takes(host):
    x = host.launches(torch.zeros(12, dtype=torch.int32))
    assert x.tolist() == [8] * 4 + [4] * 4 + [98] * 4


def test_a_kernel_is_launched_through_an_expression_that_is_evaluated_once(host):
    x = torch.zeros(2, dtype=torch.int32)
    ones = 2 + 4 + 2 + 1 + 3 + 2 + 4 + 2 + 2
    assert host.pointers(x).tolist() == [10 * (ones + 128), 1]


def test_a_kernel_is_launched_by_its_untyped_address(host):
    assert host.untyped(torch.zeros(8, dtype=torch.int32)).tolist() == [7] * 8


def test_torch_s_halves_are_cuda_s(host):
    x = torch.randn(32, dtype=torch.float16)
    assert torch.equal(host.halves(x), 2 * x)


def test_texts_near_the_border_compile(tmp_path):
    text = (Path(__file__).parent / "accepted.cu").read_text()
    includes = "#include <cuda_runtime.h>\n#include <cuda_on_cpu/as_nvcc.h>\n"
    source = tmp_path / "accepted.cpp"
    source.write_text(includes + translate(text))
    compiler = cxx_compiler()
    flags = [*library.COMMON_FLAGS, *build._device_flags(compiler, [text])]
    for standard in ("gnu++17", "gnu++20"):
        command = [compiler, *flags, f"-std={standard}", "-w", "-fsyntax-only", str(source)]
        assert subprocess.run(command, capture_output=True, text=True).stderr == ""


MEMBERS = """
struct Sizes { dim3 blockDim; __device__ unsigned int x() const { return blockDim.x; } };
template <class T> struct Base { T blockIdx = 5; };
struct Derived : Base<int> { __device__ int get() const { return this->blockIdx + Base<int>::blockIdx; } };
struct Plain { int threadIdx; __device__ int next() const { return threadIdx + 2; } };
template <class T> struct Other { __device__ T get() const { return blockIdx.x * 10 + threadIdx.x; } };
__global__ void members(int* x) {
    x[threadIdx.x] = Sizes{dim3(7)}.x() + 100 * Plain{3}.next() + 1000 * Other<int>().get() + 100000 * Derived().get();
}
"""


def test_a_member_named_like_a_built_in_variable_is_meant_in_its_methods_and_nowhere_else():
    x = torch.zeros(2, dtype=torch.int32)
    compile_kernel(MEMBERS, "members")[1, 2](x)
    assert x.tolist() == [1000507, 1001507]
