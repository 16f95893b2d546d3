"""One CUDA source, any machine: `load_cuda`, `compile_kernel`, the cell magic `%%cuda`, and how a session starts.

`common/` is what both builders use, `gpu/` builds for an NVIDIA GPU, `cpu/` is the engine for machines without one.
The last two never import each other. May import `ground`; lessons, exercises, kernels and the benchmark import it.
"""
