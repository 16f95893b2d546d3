// A launch as a C++ compiler can read it: `kernel<<<blocks, threads>>>(args)` becomes
// `::cuda_course::launch(kernel, blocks, threads)(args)` where nvcc does not compile the text (utils/cuda/gpu/split.py).
#pragma once

#include <cuda_runtime.h>

namespace cuda_course {

template <class... P>
struct Launch {
    void (*kernel)(P...);
    dim3 blocks, threads;
    size_t shared_bytes;
    cudaStream_t stream;

    // As in CUDA, cudaGetLastError reports a refused launch.
    void operator()(P... arguments) const {
        void* addresses[] = {(void*)&arguments..., nullptr};
        (void)cudaLaunchKernel((const void*)kernel, blocks, threads, addresses, shared_bytes, stream);
    }
};

template <class... P>
Launch<P...> launch(void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared_bytes = 0, cudaStream_t stream = 0) {
    return {kernel, blocks, threads, shared_bytes, stream};
}

}  // namespace cuda_course
