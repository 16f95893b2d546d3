"""What CUDA C++ may contain: device code and host code, each on the CPU engine and, if there is one, on a GPU."""
