"""What host code does to arrays from malloc and new: an overrun ends the call, and not Python."""

import pytest
import torch

from utils import load_cuda
from utils.cuda.cpu.trace.problems import KernelProblem

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = r"""
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>
#include <torch/types.h>
__global__ void fill(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }
__global__ void fill_first(float** tables) { tables[0][threadIdx.x] = 1; }
static void set(float* to, int64_t n) { for (int64_t i = 0; i < n; i++) to[i] = 5; }
float* volatile kept;
void wrong(torch::Tensor x, int64_t kind, int64_t n) {
    float* d = x.data_ptr<float>();
    float* h = (float*)malloc(n * sizeof(float));
    kept = h;
    switch (kind) {
    case 0: { std::vector<float> small(n / 2); cudaMemcpy(small.data(), d, n * 4, cudaMemcpyDeviceToHost); break; }
    case 1: h = (float*)malloc(n); set(h, n / 4); cudaMemcpy(d, h, n * 4, cudaMemcpyHostToDevice); break;
    case 2: cudaMemcpy(h + 8, d, n * 4, cudaMemcpyDeviceToHost); break;
    case 3: kept = h = (float*)malloc(n); set(h, n); free(h); break;
    case 4: { std::vector<float> small(n); set(kept = small.data(), n + 1); break; }
    case 5: kept = h = new float[n]; set(h, n + 1); delete[] h; break;
    case 6: kept = h = (float*)calloc(n, 1); set(h, n); free(h); break;
    case 7: kept = h = (float*)realloc(h, n); set(h, n); free(h); break;
    case 8: set(h - 2, n); free(h); break;
    case 9: free(h); free(kept); break;
    case 10: h = new float[n]; kept = h; delete[] h; delete[] kept; break;
    case 11: free(h); cudaMemcpy(h, d, n * 4, cudaMemcpyDeviceToHost); break;
    case 12: free(kept + 4); break;
    case 13: { float room[4]; kept = room; free(kept); break; }
    case 14: { static float room[4]; kept = room; delete[] kept; break; }
    case 15: fill<<<1, 4>>>(h, 4); break;
    case 16: { float room[4]; fill<<<1, 4>>>(room, 4); break; }
    }
}
void table(int64_t n) {
    float** tables;
    cudaMallocManaged(&tables, sizeof(float*));
    tables[0] = new float[n];
    fill_first<<<1, 4>>>(tables);
}
float of_device(int64_t n) {
    float* d;
    cudaMalloc(&d, n * sizeof(float));
    fill<<<1, 4>>>(d, 4);
    return d[3];
}
int64_t right(torch::Tensor x, int64_t n) {
    float *d = x.data_ptr<float>(), *h = (float*)calloc(n, sizeof(float));
    cudaHostRegister(h, n * sizeof(float), cudaHostRegisterMapped);
    fill<<<1, 4>>>(h, 4);
    cudaDeviceSynchronize();
    cudaHostUnregister(h);
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += h[i];
    h = (float*)realloc(h, (n + 1000) * sizeof(float));
    cudaMemcpy(h + 1000, d, n * sizeof(float), cudaMemcpyDeviceToHost);
    h = (float*)realloc(h, sizeof(float));
    sum += h[0];
    free(h);
    std::vector<std::string> words;  // they grow in the C++ library
    std::map<int, std::string> texts;
    std::ostringstream out;
    for (int i = 0; i < 2000; i++) {
        std::string word = "a";
        while (int(word.size()) < i % 300) word += word + std::to_string(i);
        words.push_back(word + word);
        texts[i % 100] = word;
        out << word;
        std::istringstream in(out.str().substr(0, 500));
        std::getline(in, words[words.size() / 2]);
        free(strdup(words[i / 3].c_str()));
        float* one = new float;
        delete one;
    }
    return sum;
}
"""
WRONG = [
    (0, r"copies 4000 bytes of an array of only 2000 bytes from new, in its host code"),
    (1, "copies 4000 bytes of an array of only 1000 bytes from malloc"),
    (2, "copies 4000 bytes, at byte 32 of an array of only 4000 bytes from malloc"),
    (
        3,
        r"has written past the end of an array of 1000 bytes from malloc \(it counts bytes: is `\* sizeof` missing\?\)",
    ),
    (4, "has written past the end of an array of 4000 bytes from new, in its host code"),
    (5, r"has written past the end of an array of 4000 bytes from new\[\]"),
    (6, "has written past the end of an array of 1000 bytes from malloc"),
    (7, "has written past the end of an array of 1000 bytes from malloc"),
    (8, "has written before the start of an array of 4000 bytes from malloc"),
    (9, "frees the same memory twice: 4000 bytes from malloc"),
    (10, r"frees the same memory twice: 4000 bytes from new\[\]"),
    (11, "copies from or to memory that it has freed: 4000 bytes from malloc"),
    (12, "gives free an address in the middle: byte 16 of 4000 bytes from malloc"),
    (13, "gives free the address of a variable, which is not from malloc or new"),
    (14, "gives delete the address of a variable"),
    (15, "(argument 1 of fill points to|writes) memory of the host: 4000 bytes from malloc(. A kernel| .line 9)"),
    (16, "illegal memory access .*: argument 1 of fill points to memory of the host: a local variable. A kernel needs"),
]


@pytest.fixture(scope="module", params=[False, True], ids=["", "traced"])
def module(request):
    declared = "void wrong(torch::Tensor x, int64_t kind, int64_t n); void table(int64_t n);\n"
    declared += "float of_device(int64_t n); int64_t right(torch::Tensor x, int64_t n);"
    return load_cuda(SOURCE, declared, ["wrong", "table", "of_device", "right"], trace=request.param)


def test_an_array_that_is_used_wrongly_ends_the_call(module):
    for kind, told in WRONG * 2:
        with pytest.raises(RuntimeError, match=told) as raised:
            module.wrong(torch.zeros(1000), kind, 1000)
        if hasattr(module.wrong, "__wrapped__") and kind < 15:
            assert f": `case {kind}: " in str(raised.value)  # the trace quotes the line
    with pytest.raises(RuntimeError, match="an array of only 1 byte from malloc"):
        module.wrong(torch.zeros(1), 1, 1)


def test_arrays_that_are_used_rightly(module):
    for n in (4, 17, 1000, 100_003):
        assert module.right(torch.zeros(n), n) == 5


def test_a_trace_names_memory_of_the_host_that_a_kernel_reaches(module):
    if not hasattr(module.table, "__wrapped__"):
        module.table(10)  # nothing can tell
        return
    told = r"thread \(0,0,0\) .* writes memory of the host: 40 bytes from new\[\] \(line 10:"
    with pytest.raises(KernelProblem, match=told) as raised:
        module.table(10)
    assert "A kernel needs memory from cudaMalloc" in str(raised.value)


def test_a_trace_names_memory_of_the_device_that_the_host_reaches(module):
    if not hasattr(module.of_device, "__wrapped__"):
        assert module.of_device(10) == 1  # nothing can tell
        return
    told = r"the host reads memory of the device: 40 bytes from cudaMalloc \(line 47: `return d\[3\];`\)"
    with pytest.raises(KernelProblem, match=told) as raised:
        module.of_device(10)
    assert [problem.kind for problem in raised.value.problems] == ["host_access"]
