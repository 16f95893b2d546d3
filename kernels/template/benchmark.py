"""Times the kernels beside PyTorch's own: `python benchmark.py`. For a profiler, `-i 1` launches each of them once.

On a GPU, times are between two events recorded around each call, so a kernel that is short is shown with what starting
it costs. The memory is the same in every call: what fits into the cache is read from there.
"""

import argparse
import sys
import time

import torch

import my_kernels

WARM_UP = 10


def cases(device):
    """What is timed: name, our function, PyTorch's, and the inputs, in float32. A CPU gets less to do."""
    n, width = (2**25, 2048) if device == "cuda" else (2**18, 96)
    a, b = torch.randn(n, device=device), torch.randn(n, device=device)
    m, k = torch.randn(width, width, device=device), torch.randn(width, width, device=device)
    yield f"vector_add {n:,}", my_kernels.vector_add, torch.add, (a, b)
    yield f"square {n:,}", my_kernels.square, torch.square, (a,)
    yield f"matmul {width} x {width}", my_kernels.matmul, torch.matmul, (m, k)


def times(function, inputs, iterations, device):
    """Seconds of each call, after calls to warm up, and what the last one returned. One iteration is not warmed up."""
    for _ in range(min(WARM_UP, iterations - 1)):
        function(*inputs)
    if device == "cpu":
        seconds = []
        for _ in range(iterations):
            start = time.perf_counter()
            result = function(*inputs)
            seconds.append(time.perf_counter() - start)
        return torch.tensor(seconds), result
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(iterations)]
    for start, end in events:
        start.record()
        result = function(*inputs)
        end.record()
    torch.cuda.synchronize()
    return torch.tensor([start.elapsed_time(end) / 1000 for start, end in events]), result


def main():
    parser = argparse.ArgumentParser(description="Time the kernels beside PyTorch's own.")
    parser.add_argument("-i", "--iterations", type=int, default=50, help="timed calls of each function (default: 50)")
    iterations = parser.parse_args().iterations
    if iterations < 1:
        parser.error(f"at least 1 iteration is needed, not {iterations}")
    device = my_kernels.built_for
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("my_kernels was built for a GPU, and torch finds none here: FORCE_CPU=1 builds for the CPU")
    where = torch.cuda.get_device_name() if device == "cuda" else "the CPU, whose times say nothing about a GPU"
    print(f"float32, {iterations} iterations, microseconds: median (lower and upper quartile), on {where}")
    print(f"{'':26}{'my_kernels':>32}{'PyTorch':>32}{'ratio':>8}")
    for name, ours, theirs, inputs in cases(device):
        columns, medians, results = [], [], []
        for function in (ours, theirs):
            seconds, result = times(function, inputs, iterations, device)
            low, middle, high = (1e6 * seconds).quantile(torch.tensor([0.25, 0.5, 0.75])).tolist()
            columns.append(f"{middle:,.1f} ({low:,.1f} to {high:,.1f})")
            medians.append(middle)
            results.append(result)
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-3)
        print(f"{name:26}{columns[0]:>32}{columns[1]:>32}{medians[0] / medians[1]:8.2f}")


if __name__ == "__main__":
    main()
