"""asm statements: operands, macros, lines, and what is refused."""

import re

import pytest
import torch

from utils import CompileError, compile_kernel
from utils.cuda.cpu.ptx.statements import with_statements
from utils.cuda.cpu.translate import NeedsGPU, TranslationError, translate
from utils.cuda.kernel import Tracer, compile_kernels

SOURCE = r"""
#define OPERATION(op, type) asm(#op "." type " %0, %0, %1;" : "+r"(x) : "r"(3))
#define BOTH(a) OPERATION(a, "s32")
#define SHAPE "u32"
#define WHOLE(a, b) \
    asm volatile("add.s32 %0, %0, %1;\n\t" \
                 "add.s32 %0, %0, 1;" : "+r"(a) : "r"(b))
#define TEXT(x) #x
#define AS_TEXT(x) TEXT(x)
#define COUNT 8
#define WAIT_ALL() asm volatile("cp.async.bulk.wait_all;\n" ::)  // there is no such instruction, and nobody uses this
__device__ __forceinline__ void unused() { asm volatile("tcgen05.wait::ld.sync.aligned;\n\t"
                                                        "no.such.instruction;"); }
__device__ void unused_too() { unused(); }
template <int n> __device__ void for_any(int& x) {
    if constexpr (n > 100) asm volatile("no.such.instruction %0;" : "+r"(x));
}
template <int n> struct Wide {
    __device__ static void wait() { asm volatile("tcgen05.wait::ld.sync.aligned;"); }
};
unsigned long long of_the_host() { unsigned low, high; asm volatile("rdtsc" : "=a"(low), "=d"(high)); return low; }
__device__ __forceinline__ unsigned int lane_by_ptx() {
    unsigned int id;
    asm("mov.u32 %0, %%laneid;" : "=r"(id));
    return id;
}
template <int by>
__device__ int shifted(int a) {
    int r;
    __asm__ __volatile__("shl.b32 %0, %1, %2;" : "=r"(r) : "r"(a), "n"(by));
    return r;
}
__global__ void k(const float* in, int* out) {
    int i = threadIdx.x, x = i;
    for_any<8>(x);
    BOTH(mul.lo);
    OPERATION(add, "s32");
    out[i] = x;
    asm("add." SHAPE " %0, %0, " AS_TEXT(COUNT) ";" : "+r"(x));
    WHOLE(x, i);
    out[32 + i] = x;
    out[64 + i] = lane_by_ptx() + shifted<3>(i);
    if (i < 16)
        asm(R"(
            { // a comment; with a semicolon
                .reg .b32 t, u;  /* another */
                mov.u32 t, %tid.x; mov.u32 u, %ntid.x;
                { .reg .b32 t; mov.u32 t, 1000; }
                mad.lo.u32 %0, t, 2, u;
            })" : "=r"(x));
    else
        asm("mov.b32 %0, -1;" : "=r"(x) :: "memory");
    out[96 + i] = x;
    asm volatile("" ::: "memory");
    float f;
    double d;
    asm("ld.global.nc.L1::no_allocate.f32 %0, [%1 + 128];" : "=f"(f) : "l"(in + i));
    asm("cvt.f64.f32 %0, %1;" : "=d"(d) : "f"(f));
    out[128 + i] = (int)d;
#if __CUDA_ARCH__ >= 1000
    asm("tcgen05.wait::ld.sync.aligned;");
#endif
}
__device__ void leave_above(int limit, int i) {
    asm volatile("{ .reg .pred p; setp.gt.s32 p, %0, %1; @p exit; }" :: "r"(i), "r"(limit));
}
__global__ void leaving(int* out) {
    int i = threadIdx.x, n = i;
    out[i] = -1;
    leave_above(20, i);
    asm volatile("AGAIN_%=: { .reg .pred p%=; add.s32 %0, %0, 1; setp.lt.s32 p%=, %0, 40; @p%= bra AGAIN_%=; }"
                 : "+r"(n));
    asm volatile("AGAIN_%=: { .reg .pred p%=; add.s32 %0, %0, 2; setp.lt.s32 p%=, %0, 60; @p%= bra AGAIN_%=; }"
                 : "+r"(n));
    if (i == 3) asm volatile("exit;");
    __syncthreads();
    out[i] = n;
}
template <int n> struct Mode { static constexpr char text[] = ".rz"; };
template <> struct Mode<1> { static constexpr const char text[] = {'.', 'r', 'p'}; };
template <char... letters> struct Letters { static constexpr char text[] = {letters..., 0}; };
constexpr char nearest[] = "", up_to_zero[] = ".rp.ftz", integers[] = "s32", minimum[] = {'m', 'i', 'n', '\0'};
const char maximum[] = "max";
template <bool to_nearest, int n> __device__ float sum(float a, float b) {
    float c;
    asm("{ .reg .b32 t; add%1.f32 t, %2, %3;\n\t"
        "sub%4.f32 %0, t, %3; }"
        : "=f"(c) : "C"(to_nearest ? nearest : up_to_zero), "f"(a), "f"(b), "C"(Mode<n>::text));
    return c;
}
template <const char* operation> __device__ int of_two(int a, int b) {
    asm("%2.%3 %0, %0, %1;" : "+r"(a) : "r"(b), "C"(operation), "C"(integers));
    return a;
}
__global__ void texts(float* x, int* y) {
    static const char three[] = "3";
    x[0] = sum<true, 0>(x[0], x[1]);
    x[2] = sum<true, 1>(x[2], x[3]);
    x[4] = sum<false, 0>(x[4], x[5]);
    y[0] = of_two<minimum>(y[0], y[1]);
    y[2] = of_two<maximum>(y[2], y[3]);
    asm("add.%1%2 %0, %0, %3;" : "+r"(y[4]) : "C"(Letters<'s', '3'>::text), "C"(Letters<'2'>::text), "C"(three));
}
__global__ void sums(const unsigned int* a, const unsigned int* b, unsigned int* out) {
    int at = 3 * threadIdx.x;
    asm volatile("add.cc.u32 %0, %1, %2;" : "=r"(out[at]) : "r"(a[at]), "r"(b[at]));
    asm volatile("addc.cc.u32 %0, %1, %2;" : "=r"(out[at + 1]) : "r"(a[at + 1]), "r"(b[at + 1]));
    asm volatile("addc.u32 %0, %1, %2;" : "=r"(out[at + 2]) : "r"(a[at + 2]), "r"(b[at + 2]));
}
"""


def test_operands_macros_and_scopes():
    x, out = torch.arange(64.0), torch.zeros(5, 32, dtype=torch.int32)
    compile_kernel(SOURCE, "k")[1, 32](x, out)
    i = torch.arange(32, dtype=torch.int32)
    expected = [3 * i + 3, 3 * i + 3 + 8 + i + 1, 9 * i, torch.where(i < 16, 2 * i + 32, -1), i + 32]
    torch.testing.assert_close(out, torch.stack(expected))


@pytest.fixture(scope="module")
def kernels():
    names = ["leaving", "sums", "texts"]
    return dict(zip(names, compile_kernels(SOURCE, names), strict=True))


@pytest.mark.parametrize("traced", [False, True])
def test_exit_ends_a_thread_and_nobody_waits_for_it(kernels, traced):
    out = torch.zeros(32, dtype=torch.int32)
    kernel = kernels["leaving"]
    if traced:  # as with `return`
        trace = kernel.trace[1, 32](out)
        assert [problem.kind for problem in trace.problems] == ["divergent_barrier"], trace
        assert "thread (3,0,0) has left the kernel" in trace.problems[0].message
        out = trace.args[0]
    else:
        kernel[1, 32](out)
    assert out.tolist() == [60 if i <= 20 and i != 3 else -1 for i in range(32)]


@pytest.mark.parametrize("traced", [False, True])
def test_a_carry_goes_from_one_statement_to_the_next(kernels, traced):
    rows = torch.randint(0, 1 << 32, (2, 40, 3))
    rows[0, :20, 1] = (1 << 32) - 1
    a, b = (row.to(torch.uint32).view(torch.int32).contiguous() for row in rows)
    out = torch.zeros_like(a)
    kernel = kernels["sums"]
    if traced:
        trace = kernel.trace[1, 40](a, b, out)
        assert trace.ok
        out = trace.args[2]
    else:
        kernel[1, 40](a, b, out)
    number = lambda row: sum((int(x) & 0xFFFFFFFF) << 32 * k for k, x in enumerate(row))  # noqa: E731
    for x, y, z in zip(a, b, out, strict=True):
        assert number(z) == (number(x) + number(y)) % (1 << 96)


def test_texts_are_inserted(kernels):
    tiny, y = 2.0**-30, torch.tensor([5, -7, 5, -7, 5], dtype=torch.int32)
    x = torch.tensor([1, tiny, 1, -tiny, 1, tiny])
    kernels["texts"][1, 1](x, y)
    below = 1 - 2.0**-24
    assert x.tolist() == pytest.approx([below, tiny, 1 + 2.0**-23, -tiny, 1, tiny], rel=0, abs=0)
    assert y.tolist() == [-7, -7, 5, -7, 8]


def test_every_line_keeps_its_number():
    lines = with_statements(SOURCE).split("\n")
    assert len(lines) == len(SOURCE.split("\n"))
    number = next(k for k, line in enumerate(lines) if "mad_lo" in line)
    assert "mad.lo.u32" in SOURCE.split("\n")[number]


REFUSED = [
    ("frobnicate.b32 %0, %0;", 3, "knows no instruction `frobnicate`", False),
    ("add.s32.loud %0, %0, %0;", 3, "`add` has no modifier `.loud`", False),
    ("add.sat.u32 %0, %0, %0;", 3, "no such combination of modifiers", False),
    ("add.s32 %0, %0;", 3, "has 2 operands and takes 3", False),
    ("mov.u32 %0, %%envreg3;", 3, "special register %envreg3", False),
    ("mov.u32 %0, nowhere;", 3, "`nowhere` is not declared", False),
    ("mov.u32 %0, %3;", 3, "has no operand %3", False),
    ("mov.u32 %1, %0;", 3, "%1 is an input of the asm statement", False),
    ("bra NOWHERE;", 3, "no label `NOWHERE`", False),
    ("mov.u32 %0, 1", 3, "`mov.u32` has no `;` behind it", False),
    ("mov.u32 %0, 1.5;", 3, "the constant 1.5 is not a u32", False),
    ("{ mov.u32 %0, 1;", 3, "`{` without its `}`", False),
    ('mov.u32 %0, 1;"\n"nothing.u32 %0, 1;', 4, "`nothing`", False),
    ("cp.async.cg.shared.global [%0], [%1], 8;", 3, "copies 16 bytes, not 8", False),
    ("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%0}, 0, 0, 0, 0, 1, 1, 1, 0, 0;", 3, "needs a GPU", True),
    ("atom.global.cas.L2::cache_hint.b32 %0, [%1], %0, %0, 0;", 3, "no such combination of modifiers", False),
    ("{ .reg .b128 q; atom.add.b128 q, [%1], q; }", 3, "no such combination of modifiers", False),
    ("discard.global.L2 [%1], 64;", 3, "takes 128 bytes", False),
    ("tcgen05.wait::ld.sync.aligned;", 3, "needs an sm_100", True),
    ("bar.sync 16;", 3, "barriers 0 to 15, and no barrier 16", False),
    ("barrier.sync 1, 48;", 3, "a multiple of 32 threads, not for 48", False),
    ("bar.arrive 1;", 3, "has 1 operands and takes 2", False),
    ("bar.arrive 1, 0;", 3, "a multiple of 32 threads, not for 0", False),
    ("bar.sync.aligned 1, 64;", 3, "`bar` has no modifier `.aligned`", False),
]


@pytest.mark.parametrize("ptx, line, says, needs_gpu", REFUSED)
def test_what_is_refused_names_the_instruction_and_the_line(ptx, line, says, needs_gpu):
    source = (
        f'__global__ void k(int* out) {{\n    int x = 1;\n    asm("{ptx}" : "+r"(x) : "l"(out));\n    *out = x;\n}}\n'
    )
    with pytest.raises(TranslationError) as caught:
        translate(source.replace("PTX", ptx))
    assert says in str(caught.value) and caught.value.line == line
    assert isinstance(caught.value, NeedsGPU) == needs_gpu


def test_a_constraint_of_another_machine():
    with pytest.raises(TranslationError, match='has one of h, r, l, f, d, q, not "=m"') as caught:
        translate('__global__ void k(int* x) {\n    asm("mov.u32 %0, 1;" : "=m"(*x));\n}')
    assert caught.value.line == 2


@pytest.mark.parametrize(
    "opcode, texts, says",
    [
        ("add.%1", ["loud", "s33"], "`add.%1`: no string of this source makes it an instruction"),
        ("tcgen05.%1", ["alloc"], "`tcgen05.%1` needs an sm_100"),
        ("add.s32 %0, %0, %1; //", map(str, range(300)), "`add.s32`: the strings of this source make more than 256"),
    ],
)
def test_texts_that_make_no_instruction_or_too_many_are_refused(opcode, texts, says):
    arrays = ", ".join(f'text{k}[] = "{text}"' for k, text in enumerate(texts))
    asm = f'asm("{opcode} %0, %0, 1;" : "+r"(*x) : "C"(text0));'
    source = f"constexpr char {arrays};\n__global__ void k(int* x) {{\n    {asm}\n}}"
    with pytest.raises(TranslationError) as caught:
        translate(source)
    assert says in str(caught.value) and caught.value.line == 3


def test_a_branch_for_another_gpu_may_have_its_instructions():
    source = '__global__ void k() {\n#if __CUDA_ARCH__ >= 700\n    asm("tcgen05.wait::ld.sync.aligned;");\n#endif\n}\n'
    with pytest.raises(CompileError) as caught:
        compile_kernel(source, "k")[1, 1]()
    assert "tcgen05" in str(caught.value)


def test_what_a_macro_or_a_template_makes_is_refused_if_it_is_used():
    source = """#define ENVIRONMENT(x) asm volatile("mov.u32 %0, %%envreg3;" : "=r"(x))
__device__ unsigned environment() { unsigned x; ENVIRONMENT(x); return x; }
__global__ void macro(unsigned* x) { x[0] = environment(); }
template <int n> __device__ unsigned chosen() {
    unsigned x = 0;
    if constexpr (n > 1) asm volatile("mov.u32 %0, %%envreg3;" : "=r"(x));
    return x;
}
__global__ void instance(unsigned* x) { x[0] = chosen<2>(); }
#define AS_TEXT(type) #type
constexpr char type[] = AS_TEXT(u32);
__global__ void text(unsigned* x) { asm("add.%1 %0, %0, 1;" : "+r"(x[0]) : "C"(type)); }
constexpr char other[] = "s32";
"""
    unknown = "`mov.u32`: the CPU engine does not have the special register %env"
    elsewhere = "`add.%1`: the text inserted here is not in this source"
    for kernel, lines, says in (("macro", (1, 2), unknown), ("instance", (6,), unknown), ("text", (12,), elsewhere)):
        with pytest.raises(CompileError) as raised:
            compile_kernel(source, kernel)[1, 1](torch.zeros(1))
        said = str(raised.value)
        assert re.match(rf"cuda_src, line \d+: {says}", said)
        assert raised.value.line in lines


# What is behind `setp p`, the constraint of %0, the value that is stored, and whether a thread with a false p stores
# what it never wrote.
PREDICATED = [
    ("@p ld.global.f32 %0, [%1];", "=f", "v", True),
    ("@p ld.global.b32 %0, [%1];", "=r", "v > 3", True),
    ("@p ld.global.f32 t, [%1]; add.f32 %0, t, t;", "=f", "v > 3", True),
    ("@!p bra END; ld.global.f32 %0, [%1]; END:", "=f", "v", True),
    ("mov.f32 %0, 0f00000000; @p ld.global.f32 %0, [%1];", "=f", "v", False),
    ("@p ld.global.f32 %0, [%1]; @!p mov.f32 %0, 0f00000000;", "=f", "v", False),
    ("@p ld.global.f32 %0, [%1];", "+f", "v", False),
    ("@p ld.global.f32 %0, [%1];", "=f", "i < n ? v : 0", False),
]


def _predicated():
    cases = [
        f"""if (which == {which}) {{
        {"float" if "f" in constraint else "int"} v = 5;
        asm volatile("{{ .reg .pred p; .reg .f32 t; setp.lt.s32 p, %2, %3; {ptx} }}"
                     : "{constraint}"(v) : "l"(x + i), "r"(i), "r"(n));
        y[i] = {use};
    }}"""
        for which, (ptx, constraint, use, _) in enumerate(PREDICATED)
    ]
    body = "\n    ".join(["const int i = threadIdx.x;", *cases])
    return f"__global__ void k(int which, const float* x, float* y, int n) {{\n    {body}\n}}\n"


@pytest.mark.parametrize("which", range(len(PREDICATED)))
def test_a_trace_reports_what_a_predicate_leaves_unwritten(which):
    source, y = _predicated(), torch.zeros(32)
    assert Tracer(source, "k")[1, 32](which, torch.rand(32), y, 32).ok
    problems = Tracer(source, "k")[1, 32](which, torch.rand(32), y, 20).problems
    unset = PREDICATED[which][-1]
    assert len(problems) == unset, problems
    if unset:
        line = [k for k, text in enumerate(source.splitlines(), 1) if "asm" in text][which]
        assert f"y[20] what depends on what the `asm` in line {line} leaves unwritten" in problems[0].message, problems
        assert "behind `@p`" in problems[0].hint


def test_without_a_trace_it_is_not_the_value_of_before():
    k = compile_kernel(_predicated(), "k")
    for which, (_, _, use, unset) in enumerate(PREDICATED):
        x, y = torch.rand(32), torch.zeros(32)
        k[1, 32](which, x, y, 20)
        if use == "v":
            assert torch.equal(y[:20], x[:20])
            assert y[20:].isnan().all() == unset
