"""What CUDA C++ may say: device code and the host's side, each on the CPU engine and, where there is one, on a GPU."""
