"""Building for an NVIDIA GPU: nvcc for extensions, NVRTC for single kernels, and what to say when the GPU is lost.

May import `common` and `ground`; `cuda` and the benchmark import it.
"""
