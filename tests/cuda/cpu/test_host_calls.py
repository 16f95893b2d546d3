"""What goes wrong in an extension's host code ends the call, and not Python."""

import os
import resource
import subprocess

import pytest
import torch

from utils import load_cuda

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = r"""
#include <cassert>
#include <cstring>
#include <stdexcept>
#include <torch/types.h>
__global__ void fill(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }
int deeper(int n) {
    volatile char room[1000];
    room[n % 1000] = 1;
    return n < 0 ? 0 : deeper(n + 1) + room[5];
}
int64_t host(torch::Tensor x, int64_t kind, int64_t i) {
    float* p = x.data_ptr<float>();
    fill<<<1, 32>>>(p, 4);
    switch (kind) {
    case 0: *reinterpret_cast<volatile float*>(i) = 1; break;
    case 1: fill<<<4 / i, 4>>>(p, 4); break;
    case 2: return deeper(0);
    case 3: abort();
    case 4: exit(1);
    case 5: assert(x.numel() == i); break;
    case 6: reinterpret_cast<void (*)()>(i)(); break;
    case 7: return p[i];
    case 8: memset(p, 0, size_t(i)); break;
    case 9: throw 5;
    case 10: throw std::runtime_error("its own");
    case 11: for (volatile int turn = 0;; turn++);
    case 12: __builtin_trap();
    case 13: cudaMemcpy(reinterpret_cast<void*>(i), &i, 8, cudaMemcpyDefault); break;
    case 14: cudaMemset(reinterpret_cast<void*>(i), 0, 8); break;
    }
    return x.numel();
}
"""
WRONG = [
    (0, 0, r"host writes memory that is not there \(address \S+\), in its host code"),
    (0, 100_000, "host writes memory that is not there"),
    (1, 0, "host divides a whole number by zero, in its host code"),
    (2, 0, "host needs more stack than there is"),
    (3, 0, "host calls abort, which would end Python"),
    (4, 0, "host calls exit, which would end Python"),
    (5, 3, r"host fails the assertion `x.numel\(\) ?== ?i` \(cuda_src, line 21\)"),
    (6, 0, "host calls a function through a bad pointer"),
    (6, 5, "host calls a function through a bad pointer"),
    (7, 4, "host reads right behind the end of a tensor of 16 bytes"),
    (8, 10**9, "host writes .*, in its host code"),
    (9, 0, "host throws what is not a std::exception"),
    (10, 0, "^its own$"),
    (13, 100_000, "host writes memory that is not there .*, in its host code"),
    (14, 100_000, "host writes memory that is not there .*, in its host code"),
    (12, 0, "host has reached what the compiler took for unreachable"),
]


@pytest.fixture(scope="module", params=[False, True], ids=["", "traced"])
def host(request):
    declared = "int64_t host(torch::Tensor x, int64_t kind, int64_t i);"
    return load_cuda(SOURCE, declared, ["host"], trace=request.param).host


def test_host_code_that_goes_wrong_is_an_exception(host):
    for kind, i, told in WRONG * 2:
        x = torch.zeros(4)
        with pytest.raises(RuntimeError, match=told):
            host(x, kind, i)
        assert host(x, -1, 0) == 4 and x.sum() == 4


def test_an_endless_recursion_ends_where_the_stack_has_no_limit(host):
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if hard != resource.RLIM_INFINITY:
        pytest.skip("the stack's limit cannot be lifted here")
    resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
    try:
        with pytest.raises(RuntimeError, match="host needs more stack than there is"):
            host(torch.zeros(4), 2, 0)
        assert resource.getrlimit(resource.RLIMIT_STACK) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))


def test_the_stop_button_ends_a_loop_of_host_code(host):
    x = torch.zeros(4)
    with subprocess.Popen(["sh", "-c", f"sleep 1; kill -INT {os.getpid()}"]), pytest.raises(KeyboardInterrupt):
        host(x, 11, 0)
    assert host(x, -1, 0) == 4
