"""Every kernel of kernels/ under NVIDIA's compute-sanitizer, with a GPU:  python -m bench.recorded.sanitizer

memcheck looks for accesses outside of a tensor, racecheck for races in shared memory, each on the launches that
tests/kernels/launches.py lists. Prints what they find, keeps nothing, and ends with a status above zero if one of
them finds something. Needs compute-sanitizer (of the CUDA Toolkit), no network, and about a minute.
"""

import os
import shutil
import subprocess
import sys

TOOLS = ("memcheck", "racecheck")


def launch_all():
    """Launch every kernel with all of its sizes. compute-sanitizer watches this program."""
    import torch

    import kernels
    from tests.kernels.launches import LAUNCHES
    from utils import compile_kernel

    launches = 0
    for operation in kernels.names():
        for name in kernels.launched(operation):
            kernel, (launch, sizes, *_) = compile_kernel(kernels.source(operation), name), LAUNCHES[name]
            for size in sizes:
                grid, block, shared, *args = launch(*size)
                kernel[grid, block, shared](*(arg.cuda() if torch.is_tensor(arg) else arg for arg in args))
                launches += 1
    torch.cuda.synchronize()
    print(f"{launches} launches of {len(LAUNCHES)} kernels")


def main() -> int:
    if sys.argv[1:] == ["--launch"]:
        launch_all()
        return 0
    if shutil.which("compute-sanitizer") is None:
        print("There is no compute-sanitizer here: it comes with the CUDA Toolkit.", file=sys.stderr)
        return 1
    program = [sys.executable, "-m", "bench.recorded.sanitizer", "--launch"]
    # Each tensor in memory of its own: torch's would hide a step from one into the next.
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    # cuda-bindings asks the driver for functions that it may not have: such answers are not errors of a kernel.
    options = ["--error-exitcode", "1", "--report-api-errors", "no"]
    running = {
        tool: subprocess.Popen(["compute-sanitizer", "--tool", tool, *options, *program], env=environment)
        for tool in TOOLS
    }
    failed = [tool for tool, process in running.items() if process.wait()]
    print(f"found something, or could not run: {', '.join(failed)}" if failed else f"clean: {', '.join(TOOLS)}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
