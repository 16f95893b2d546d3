"""`python -m utils.cuda.run`: whole programs, with their files, arguments, output and exit codes."""

import functools
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from utils.cuda import run
from utils.cuda.common.cache import _entries

ROOT = Path(__file__).resolve().parents[2]

# Several files, a header with a kernel beside them and one in a folder of its own, and a main that does what its first
# argument says.
FILES = {
    "main.cu": r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include "kernels.cuh"
#include "plain.h"
int sum(const int* x, int n);
int main(int argc, char** argv) {
    const char* what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "echo")) {
        for (int i = 2; i < argc; i++) printf("[%s]", argv[i]);
        printf(" %d %d\n", FACTOR, plain());
        std::string line;
        while (std::getline(std::cin, line)) std::cout << "> " << line << std::endl;
        return 0;
    }
    if (!strcmp(what, "exit")) exit(7);
    if (!strcmp(what, "abort")) abort();
    if (!strcmp(what, "throw")) throw std::runtime_error("out of cheese");
    int n = 1000, *x;
    cudaMalloc(&x, n * sizeof(int));
    for (int i = 0; i < 3 && !strcmp(what, "shift"); i++) shift<<<1, 1>>>(x, 40 + i);
    fill<<<(n + 255) / 256, 256>>>(!strcmp(what, "fault") ? nullptr : x, n);
    cudaDeviceSynchronize();
    printf("%d\n", sum(x, n));
    return cudaFree(x);
}
""",
    "kernels.cuh": r"""#pragma once
__global__ void fill(int* x, int n) {
    __shared__ int factor;
    if (threadIdx.x == 0) factor = FACTOR;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = factor;
}
__global__ void shift(int* x, int by) { *x = FACTOR << by; }
""",
    "include/plain.h": 'static int plain() { unsigned lo; __asm__("" : "=r"(lo) : "0"(5)); return lo; }\n',
    "sum.cpp": '#include <cuda_runtime.h>\n#include <vector>\nextern "C" int add(int, int);\n'
    "int sum(const int* x, int n) {\n    std::vector<int> h(n);\n"
    "    cudaMemcpy(h.data(), x, n * 4, cudaMemcpyDeviceToHost);\n    int s = 0;\n"
    "    for (int v : h) s = add(s, v);\n    return s;\n}\n",
    "add.c": "int add(int new, int old) { return new + old; }\n",
}


def words(folder, *arguments):
    sources = [str(folder / name) for name in ("main.cu", "sum.cpp", "add.c")]
    return [*sources, *arguments, "-I", str(folder / "include"), "-D", "FACTOR=3"]


def started(*arguments, **options):
    command = [sys.executable, "-m", "utils.cuda.run", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("program")
    for name, text in FILES.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    return place


@pytest.mark.parametrize("options", [[], ["--trace"]])
def test_several_files_with_headers_of_their_own(folder, options):
    done = started(*options, *words(folder))
    assert (done.stdout, done.returncode) == ("3000\n", 0), done.stderr


def test_arguments_input_and_output_are_passed_on(folder):
    done = started(*words(folder, "echo", "a b", "x.cu"), "--", "--trace", input="one\ntwo\n")
    assert done.stdout.splitlines() == ["[a b][x.cu][--trace] 3 5", "> one", "> two"]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_python_ends_the_program(folder, sent):
    command = [sys.executable, "-m", "utils.cuda.run", *words(folder, "echo")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    not_ignored = functools.partial(signal.signal, sent, signal.SIG_DFL)  # as it is under `nohup`
    with subprocess.Popen(command, cwd=ROOT, text=True, preexec_fn=not_ignored, **pipes) as running:
        running.stdin.write("one\n")
        running.stdin.flush()
        assert [running.stdout.readline() for _ in range(2)] == [" 3 5\n", "> one\n"]
        running.send_signal(sent)
        assert running.wait(timeout=300) == 128 + sent
        assert running.stdout.read() == ""  # that is, nobody holds the pipe any more


@pytest.mark.parametrize(
    ("what", "code", "message"),
    [
        ("exit", 7, ""),
        ("abort", 134, "was ended by SIGABRT"),
        ("throw", 134, "out of cheese"),
        ("shift", 0, r"^kernels\.cuh, line 9: warning: thread .* of shift shifts a number of 32 bits by 40: [^\n]*\n$"),
        ("fault", 700 % 256, r"illegal memory access.*thread \(0, 0, 0\) of block \(\d, 0, 0\) of fill"),
    ],
)
def test_exit_codes(on_cpu, folder, capfd, what, code, message):
    assert run.main(words(folder, what)) == code
    assert re.search(message, capfd.readouterr().err)


def test_an_earlier_build_is_used_until_a_file_changes(folder, tmp_path, capfd):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    program = (tmp_path / "main.cu").rename(tmp_path / "earlier.cu")  # other tests may build a main.cu at the same time
    command = [str(program), *words(tmp_path)[1:]]

    def builds():
        return {entry.path for entry in _entries() if entry.path.name.startswith("earlier_cu_")}

    assert run.main([*command, "exit"]) == 7
    before = builds()
    assert before and run.main([*command, "exit"]) == 7
    assert builds() == before
    header = tmp_path / "kernels.cuh"
    header.write_text(header.read_text().replace("= factor;", "= factor + 1;"))
    capfd.readouterr()
    assert run.main(command) == 0
    assert capfd.readouterr().out == "4000\n" and builds() > before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('#include "wrong.cuh"\nint main() { k<<<1, 1>>>(0); }', r"wrong\.cuh, line 2: .*missing"),
        ("int main() {\n    return missing;\n}", r"one\.cu, line 2: .*missing.*\n.*\n-->    2 \| +return missing;"),
        ("void f();\nint main() { f(); }", r"`f\(\)` is declared and called, but no source defines it"),
        (
            "extern __device__ int c;\n__device__ int c = 3;\nint main() {}",
            r"^(?!.*NVIDIA).*one\.cu, line 2: redefinition of .int c.",
        ),
        ("__global__ void k() {}", r"^(?!.*NVIDIA).*there is no `main`, where a program begins"),
    ],
)
def test_errors_name_the_file_and_the_line(tmp_path, capfd, text, message):
    (tmp_path / "one.cu").write_text(text)
    (tmp_path / "wrong.cuh").write_text("#pragma once\n__global__ void k(int* x) { *x = missing; }\n")
    assert run.main([str(tmp_path / "one.cu")]) == 2
    assert re.search(message, capfd.readouterr().err, re.DOTALL)


def test_the_engine_has_no_room_for_2_gb_of_variables(on_cpu, tmp_path, capfd):
    (tmp_path / "one.cu").write_text("__device__ char big[1ull << 31];\nint main() { return sizeof(big) > 1; }\n")
    assert run.main([str(tmp_path / "one.cu")]) == 2
    assert "the variables outside of functions need more than 2 GB together" in capfd.readouterr().err


EXTERN = r"""#include <cstdio>
extern __device__ int counter;
namespace n { extern __constant__ float c[4]; }
__global__ void k() { printf("%d %g\n", ++counter, n::c[1]); }
int main() {
    k<<<1, 1>>>();
    return cudaDeviceSynchronize();
}
"""


def test_an_extern_variable_of_the_device_is_defined_by_the_only_source_or_by_another(tmp_path):
    (tmp_path / "alone.cu").write_text(EXTERN)
    (tmp_path / "other.cu").write_text(
        "__device__ int counter = 7;\nnamespace n { __constant__ float c[4] = {0, 2.5f}; }\n"
    )
    done = started(tmp_path / "alone.cu")
    assert (done.stdout, done.returncode) == ("1 0\n", 0), done.stderr
    done = started(tmp_path / "alone.cu", tmp_path / "other.cu")
    assert (done.stdout, done.returncode) == ("8 2.5\n", 0), done.stderr


def test_options_for_the_compiler_and_the_linker(tmp_path, capfd):
    (tmp_path / "threads.cu").write_text(
        "#include <cstdio>\n#include <omp.h>\nint main(int argc, char** argv) {\n    int threads = 0;\n"
        "#pragma omp parallel num_threads(3) reduction(+ : threads)\n    threads += 1;\n"
        '    printf("%d %d %s\\n", threads, argc, argv[argc - 1]);\n}\n'
    )
    command = [str(tmp_path / "threads.cu"), "-Xcompiler", "-fopenmp"]
    assert run.main([*command, "-lm", "-lcublas", "file", "-last"]) == 0
    assert capfd.readouterr().out == "3 3 -last\n"
    assert run.main([*command, "-lnowhere"]) == 2
    assert "nowhere" in capfd.readouterr().err


def test_options_of_nvcc(tmp_path, capfd):
    (tmp_path / "relaxed.cu").write_text(
        '#include <algorithm>\n#include <cstdio>\n__global__ void k(int n) { printf("%d\\n", std::max(n, 7)); }\n'
        "int main(int argc, char**) { k<<<1, 1>>>(argc); cudaDeviceSynchronize(); }\n"
    )
    command = ["-O3", "-arch=sm_90a", str(tmp_path / "relaxed.cu")]
    assert run.main(command) == 2
    assert "calling a constexpr __host__ function" in capfd.readouterr().err
    assert run.main([*command, "--expt-relaxed-constexpr"]) == 0
    assert capfd.readouterr().out == "7\n"


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has all of them")
@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("#include <cuda.h>\nint main() {\n    CUdevice d;\n    cuInit(0);\n}", 3, "the driver's own functions: use"),
        ("int main() {\n    cudaArray_t a;\n    cudaMallocArray(&a, nullptr, 1, 1);\n}", 3, "textures: read the"),
        (
            "#include <curand_kernel.h>\n"
            "__global__ void k(curandState* s) {\n    curand_init(1, 2, 3, s);\n}\nint main() {}",
            2,
            "cuRAND, random numbers: make them",
        ),
        ("#include <cub/cub.cuh>\nusing namespace cub;\nint main() {}", 2, "CUB: write the reduction"),
        (
            "#include <thrust/sort.h>\nint main() {\n    thrust::sort((int*)0, (int*)0);\n}",
            3,
            "Thrust: write the kernel",
        ),
        ("#include <cublasXt.h>\nint main() {}", 1, "this interface of cuBLAS: use cublas_v2.h"),
        ("int main() {\n    cudaGraphicsResource* r;\n    cudaGraphicsMapResources(1, &r, 0);\n}", 2, "graphics"),
        ("int main() {\n    cudaMemPoolPtrExportData d;\n}", 2, "memory that processes share: it needs a GPU"),
    ],
)
def test_what_the_engine_lacks_is_named_once(tmp_path, capfd, text, line, message):
    (tmp_path / "one.cu").write_text(text)
    assert run.main([str(tmp_path / "one.cu")]) == 2
    said = capfd.readouterr().err
    assert re.search(rf"one\.cu, line {line}: .*the CPU engine does not have {message}", said)
    assert said.count("one.cu, line") == 1


def test_a_header_that_nothing_is_used_from_is_no_reason_to_stop(tmp_path, capfd):
    includes = "#include <thrust/device_vector.h>\n#include <cub/cub.cuh>\n#include <mma.h>\n#include <curand.h>\n"
    (tmp_path / "unused.cu").write_text(f"{includes}int main() {{\n    return 3;\n}}\n")
    assert run.main([str(tmp_path / "unused.cu")]) == 3, capfd.readouterr().err


def test_what_cuda_no_longer_has_is_replaced(tmp_path, capfd):
    (tmp_path / "old.cu").write_text("int main() {\n    cudaThreadSynchronize();\n}")
    assert run.main([str(tmp_path / "old.cu")]) == 2
    assert "no `cudaThreadSynchronize` any more: write `cudaDeviceSynchronize()`" in capfd.readouterr().err


def test_what_is_not_a_program(tmp_path, capfd):
    assert run.main(["notes.txt"]) == 2
    assert run.main([str(tmp_path / "none.cu")]) == 2
    said = capfd.readouterr().err
    assert "'notes.txt' is neither an option nor a source" in said and "none.cu: No such file" in said
    assert run.main(["--help"]) == 0
    assert "--trace" in capfd.readouterr().out


def test_a_trace_reports_problems_with_file_and_line(tmp_path, capfd):
    (tmp_path / "traced.cu").write_text(
        '#include "race.cuh"\n#include <cstdio>\n__device__ float x[64], out[65];\n'
        "__global__ void copy(int n) {\n    if (threadIdx.x < n) out[threadIdx.x + 1] = x[threadIdx.x];\n}\n"
        "int main(int argc, char**) {\n    copy<<<1, 64>>>(64);\n    if (argc > 1) reverse<<<1, 64>>>(1);\n"
        '    printf("done %d\\n", cudaDeviceSynchronize());\n    return argc > 2 ? 5 : 0;\n}\n'
    )
    (tmp_path / "race.cuh").write_text(
        "__global__ void reverse(int n) {\n    __shared__ float tile[64];\n    tile[threadIdx.x] = n;\n"
        "    if (tile[63 - threadIdx.x] < 0) tile[0] = 1;\n}\n"
    )
    command = [str(tmp_path / "traced.cu"), "--trace"]
    assert run.main(command) == 0
    assert run.main([*command, "once"]) == 1
    said = capfd.readouterr()
    assert said.out == "done 0\ndone 0\n"
    assert re.search(r"^race\.cuh: threads .* both touch tile\[.*line 3.*line 4", said.err, re.MULTILINE)
    assert "hint: Put `__syncthreads();`" in said.err
    assert run.main([*command, "and", "again"]) == 5


def test_a_trace_reports_a_call_that_fails_unless_the_program_asks(tmp_path, capfd):
    program = tmp_path / "small.cu"
    program.write_text(
        "#include <cstdio>\nint main(int argc, char**) {\n    float h[100] = {}, *d;\n    cudaMalloc(&d, 100);\n"
        "    cudaMemcpy(d, h, 400, cudaMemcpyHostToDevice);\n"
        '    if (argc > 1) printf("%s\\n", cudaGetErrorString(cudaGetLastError()));\n}\n'
    )
    assert run.main([str(program), "--trace"]) == 1
    said = "`cudaMemcpy` returns cudaErrorInvalidValue, 'invalid argument' (line 5: `cudaMemcpy(d, h, 400, cudaMem"
    assert said in capfd.readouterr().err
    assert run.main([str(program), "--trace", "ask"]) == 0
    assert "small.cu: the trace has found no problem\n" in capfd.readouterr().err
    assert run.main([str(program)]) == 0
    assert capfd.readouterr().err == ""


def test_a_trace_reports_each_call_that_fails_once(tmp_path, capfd):
    program = tmp_path / "several.cu"
    program.write_text(
        "int main(int argc, char**) {\n    float h[100] = {}, *d;\n    cudaMalloc(&d, 100);\n"
        "    cudaMemset(d, 0, 400);\n    if (argc > 1) cudaGetLastError();\n"
        "    for (int i = 0; i < 3; i++)\n        cudaFree(h);\n    cudaFree(d);\n    cudaFree(d);\n}\n"
    )

    def lines(*arguments):
        assert run.main([str(program), "--trace", *arguments]) == 1
        return re.findall(
            r"`cuda(?:Memset|Free)` returns \w+, 'invalid argument' \(line (\d+):", capfd.readouterr().err
        )

    assert lines() == ["4", "7", "9"]
    assert lines("ask") == ["7", "9"]


def test_of_what_a_trace_reports_a_call_that_fails_is_first_if_it_was(on_cpu, tmp_path, capfd):
    program = tmp_path / "elements.cu"
    program.write_text(
        "__global__ void twice(float* x, int n) {\n    int i = threadIdx.x;\n    if (i < n) x[i] *= 2;\n}\n"
        "int main() {\n    float h[100] = {}, *d;\n    cudaMalloc(&d, 100);\n"
        "    cudaMemcpy(d, h, 400, cudaMemcpyHostToDevice);\n    twice<<<1, 128>>>(d, 100);\n"
        "    return cudaDeviceSynchronize();\n}\n"
    )
    run.main([str(program), "--trace"])
    assert re.findall(r"^elements\.cu: .*\(line (\d+): ", capfd.readouterr().err, re.MULTILINE)[:2] == ["8", "3"]
    assert run.main([str(program)]) == 700 % 256
    assert capfd.readouterr().err.splitlines()[-1:] == ["Run it with --trace, which shows the line."]


def test_a_trace_asks_for_a_sizeof_where_an_allocation_counts_elements(on_cpu, tmp_path, capfd):
    program = tmp_path / "allocates.cu"
    program.write_text(
        "__global__ void fill(float* x, int n) {\n    if (threadIdx.x < n) x[threadIdx.x] = 1;\n}\n"
        "int main(int argc, char**) {\n    int n = 100;\n    float* d;\n"
        "    argc > 1 ? cudaMalloc(&d, n * sizeof(float)) :\n    cudaMallocManaged(&d, n);\n"
        "    fill<<<1, 128>>>(d, n);\n    return cudaDeviceSynchronize();\n}\n"
    )
    run.main([str(program), "--trace"])
    asked = "cudaMallocManaged counts in bytes: it has allocated 100 bytes for x in line 8 (`cudaMallocManaged(&d, n);"
    assert asked in capfd.readouterr().err
    assert run.main([str(program), "--trace", "right"]) == 0


# Each side uses memory that is the other's, if the first argument says so.
SIDES = r"""#include <cstdio>
#include <cstdlib>
#include <cublas_v2.h>
__global__ void fill(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = threadIdx.x; }
int main(int, char** argv) {
    const int n = 100, turns = argv[1][0] == 't' ? 1000 : 1;
    float *d, *h = (float*)calloc(n, 4), *both, first[2];
    cudaMalloc(&d, n * 4);
    cudaMallocManaged(&both, n * 4);
    both[n - 1] = 1;
    if (argv[1][0] == 'w') d[3] = 1;
    fill<<<1, 128>>>(argv[1][0] == 'h' ? h : d, n);
    for (int i = 1; i < turns; i++) fill<<<1, 1>>>(d, 1);
    cublasHandle_t handle;
    cublasCreate(&handle);
    float two = 2;
    cublasSscal(handle, n, &two, d, 1);
    fill<<<1, 128>>>(both, n - 1);
    cudaMemset(d, 0, 4);
    cudaMemcpy(first, d, 8, cudaMemcpyDeviceToHost);
    if (argv[1][0] == 'r') first[1] = d[5];
    cudaFree(d);
    printf("%g %g %g\n", first[0], first[1], both[n - 1] + both[3]);
}
"""


@pytest.mark.parametrize(
    ("what", "code", "message"),
    [
        ("none", 0, ""),
        ("turns", 0, ""),
        ("read", 139, "the host reads memory of the device: 400 bytes from cudaMalloc. Only kernels"),
        ("write", 139, "the host writes memory of the device: 400 bytes from cudaMalloc. Only kernels"),
        ("host", 1, "argument 1 of fill points to memory of the host: 400 bytes from malloc. A kernel needs"),
    ],
)
def test_the_host_and_the_device_have_memory_of_their_own(on_cpu, written, capfd, what, code, message):
    program = written("sides.cu", SIDES)
    assert run.main([str(program), what]) == code
    said = capfd.readouterr()
    assert (said.out == "0 2 4\n") == (code == 0)
    assert message in said.err
    assert run.main([str(program), "--trace", what]) == (1 if what == "host" else code)
    told = {
        "read": r"the host reads memory of the device: 400 bytes from cudaMalloc \(line 21: .*\n +hint: Copy it",
        "write": r"the host writes memory of the device: 400 bytes from cudaMalloc \(line 11: .*\n +hint: Fill an",
        "host": r"writes memory of the host: 400 bytes from malloc \(line 4: .*\n +hint: A kernel needs memory from",
    }
    assert re.search(told.get(what, "the trace has found no problem"), capfd.readouterr().err)


MODES = r"""#include <cstdio>
#include <cstring>
#include <unistd.h>
static int copies, destroyed;
struct Counted {
    int* p;
    Counted() { cudaMalloc(&p, 4); cudaMemset(p, 0, 4); }
    Counted(const Counted& other) : p(other.p) { copies++; }
    ~Counted() { destroyed++; }
};
__global__ void count(Counted c, int by) { atomicAdd(c.p, by); c.p = nullptr; }
__global__ void twice(float* x, const float* y, int n) { if (threadIdx.x < n) x[threadIdx.x] = 2 * y[threadIdx.x]; }
int main(int, char** argv) {
    const char mode = argv[1][0];
    const bool waits = argv[1][1] == '+';
    float *x, *y, *pinned;
    cudaMallocManaged(&x, 400);
    cudaMalloc(&y, 400);
    cudaMallocHost(&pinned, 400);
    for (int i = 0; i < 100; i++) x[i] = pinned[i] = i;
    cudaMemcpy(y, pinned, 400, cudaMemcpyHostToDevice);
    cudaStream_t s;
    cudaStreamCreate(&s);
    if (mode == 'c') {
        int sum;
        Counted c;
        count<<<2, 64>>>(c, 3);
        void (*pointer)(Counted, int) = count;
        pointer<<<1, 32>>>(c, 1);
        cudaMemcpy(&sum, c.p, 4, cudaMemcpyDeviceToHost);
        printf("%d %d %d\n", sum, copies < 9, copies == destroyed);
    } else if (mode == 'g') {
        cudaGraph_t graph;
        cudaGraphExec_t run;
        cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
        twice<<<1, 128, 0, s>>>(x, y, 100);
        cudaStreamEndCapture(s, &graph);
        cudaGraphInstantiate(&run, graph, 0);
        cudaGraphLaunch(run, s);
        cudaStreamSynchronize(s);
        printf("%g\n", x[9]);
    } else if (mode == 'm') {
        twice<<<1, 128>>>(x, y, 100);
        if (waits) cudaDeviceSynchronize();
        printf("%g\n", x[9]);
    } else if (mode == 'a') {
        cudaMemcpyAsync(pinned, y, 400, cudaMemcpyDeviceToHost, s);
        if (waits) cudaStreamSynchronize(s);
        printf("%g\n", pinned[9]);
    } else if (mode == 'e') {
        twice<<<1, 128>>>(x, y, 128);
        _exit(3);
    } else if (mode == 'n') {
        strcpy((char*)nullptr, "x");
    } else if (mode == 'f') {
        cudaFree(y);
        x[0] = 1;
        cudaMemcpy(x, y, 4, cudaMemcpyDeviceToHost);
        printf("%g\n", x[0]);
    } else if (mode == 't') {
        cudaFree(y);
        cudaFree(y);
    } else if (mode == 'o') {
        float* h = (float*)malloc(100);
        cudaMemcpy(h, y, 400, cudaMemcpyDeviceToHost);
    } else if (mode == 'd') {
        float* h = new float[100];
        delete[] h;
        delete[] h;
    }
}
"""


@pytest.mark.parametrize(
    ("mode", "out", "told"),
    [
        ("counted", "416 1 1\n", "the trace has found no problem"),
        ("graph", "18\n", "the trace has found no problem"),
        ("m+", "18\n", "the trace has found no problem"),
        (
            "m-",
            "18\n",
            r"the host reads element 9 of memory from cudaMallocManaged \(line 45: .*\) without waiting for what "
            r"writes to it\n.*cudaDevice",
        ),
        ("a+", "9\n", "the trace has found no problem"),
        (
            "a-",
            "9\n",
            r"the host reads element 9 of memory from cudaMallocHost \(line 49: .*\) without waiting for what writes",
        ),
        ("freed", "1\n", r"returns cudaErrorInvalidValue, 'invalid argument' \(line 58:"),
        ("twice", "", r"returns cudaErrorInvalidValue, 'invalid argument' \(line 62: .*\n.*Was it freed before\?"),
        ("exit", "", r"reads y\[100\], but y has 100 elements \(line 12:"),
        ("null", "", r"SIGSEGV\nmodes.cu: the host writes memory .* \(address 0, .*\) \(line 54: `strcpy\("),
        (
            "over",
            "",
            r"modes.cu: the host copies 400 bytes of an array of only 100 bytes from malloc \(line 65: `cudaM",
        ),
        (
            "delete",
            "",
            r"modes.cu: the host frees the same memory twice: 400 bytes from new\[\] \(line 69: `delete\[\] h",
        ),
    ],
)
def test_what_a_trace_says_of_a_program(on_cpu, written, capfd, mode, out, told):
    program = written("modes.cu", MODES)
    run.main([str(program), "--trace", mode])
    said = capfd.readouterr()
    assert said.out == out
    assert re.search(told, said.err), said.err


def test_what_host_code_does_to_its_arrays_ends_a_program(on_cpu, written, capfd):
    program = written("modes.cu", MODES)
    assert run.main([str(program), "over"]) == 128 + signal.SIGABRT
    said = (
        "the host copies 400 bytes of an array of only 100 bytes from malloc\nRun it with --trace, which shows the line"
    )
    assert said in capfd.readouterr().err


NULL = r"""
#include <cstdio>
struct Pair { int a, *b; };
__global__ void store(int* p) { *(int*)nullptr = 1; p[0] = 2; }
__global__ void load(int* p) { p[0] = *(int*)nullptr; }
__global__ void member(int* p) { Pair* s = nullptr; s->a = p[0]; s->b = p; }
__global__ void checked(int* p) { int* q = p[0] ? nullptr : p; if (q) *q = 2; }
int main(int argc, char** argv) {
    int* p;
    cudaMalloc(&p, 32);
    cudaMemset(p, 0, 32);
    if (argv[1][0] == 's') store<<<1, 32>>>(p);
    if (argv[1][0] == 'l') load<<<1, 32>>>(p);
    if (argv[1][0] == 'm') member<<<1, 32>>>(p);
    if (argv[1][0] == 'c') checked<<<1, 32>>>(p);
    printf("%d\n", cudaDeviceSynchronize());
}
"""


@pytest.mark.parametrize(("kernel", "verb"), [("store", "writes"), ("load", "reads"), ("member", "writes")])
def test_a_kernel_that_does_nothing_but_touch_a_null_pointer_is_at_fault(on_cpu, tmp_path, capfd, kernel, verb):
    program = tmp_path / "null.cu"
    program.write_text(NULL)
    assert run.main([str(program), kernel]) == 1
    said = capfd.readouterr()
    assert f"thread (0, 0, 0) of block (0, 0, 0) of {kernel} {verb} memory through a null pointer" in said.err
    assert said.out == "700\n"
    assert run.main([str(program), "checked"]) == 0
    assert capfd.readouterr().out == "0\n"


SHARED = r"""
#include <cstdio>
extern __shared__ char s[];
__global__ void k(int* x) {
    __shared__ char t[16384];
    s[threadIdx.x] = t[threadIdx.x] = 1;
    x[0] = s[threadIdx.x] + t[threadIdx.x];
}
int main() {
    int *x, h = 0;
    cudaMalloc(&x, 4);
    for (int bytes : {32768, 40000, 0, 40000, 40001}) {
        if (!bytes) printf("%d\n", cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 40000));
        if (!bytes) continue;
        cudaMemset(x, 0, 4);
        k<<<1, 1, bytes>>>(x);
        int said = cudaGetLastError(), after = cudaDeviceSynchronize();
        cudaMemcpy(&h, x, 4, cudaMemcpyDeviceToHost);
        printf("%d %d %d\n", said, after, h);
    }
}
"""


def test_a_program_goes_on_after_a_launch_with_too_much_static_and_dynamic_shared_memory(tmp_path, capfd):
    program = tmp_path / "shared.cu"
    program.write_text(SHARED)
    assert run.main([str(program)]) == 0
    assert capfd.readouterr().out == "0 0 2\n1 0 0\n0\n0 0 2\n1 0 0\n"
    if not torch.cuda.is_available():
        run.main([str(program), "--trace"])
        said = "the launch of k is refused (CUDA error: invalid argument): 40000 bytes of dynamic shared memory"
        assert said in capfd.readouterr().err
