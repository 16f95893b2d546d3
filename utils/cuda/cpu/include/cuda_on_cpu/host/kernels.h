// What the host can ask and set about a kernel, and launches by function call.
#pragma once

#include <cstddef>
#include <utility>

#include "../errors.h"
#include "../start.h"

namespace cuda_on_cpu {

bool large_clusters(const void* kernel);      // whether cudaFuncSetAttribute allows it clusters of more than 8 blocks

// A kernel's address alone does not lead to its bounds. So where a source names a kernel that has some, as an argument of
// a function of the host, it is translated to bounded(name, CUDA_ON_CPU_BOUNDS(...)), which remembers them.
void remember(const void* kernel, const KernelBounds& bounds);
template <class Bounds, class... A>
auto bounded(void (*kernel)(A...), Bounds) {
    remember((const void*)kernel, std::invoke_result_t<Bounds, A...>::value());
    return kernel;
}

}  // namespace cuda_on_cpu

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9,
    cudaFuncAttributeClusterDimMustBeSet = 10,
    cudaFuncAttributeRequiredClusterWidth = 11,
    cudaFuncAttributeRequiredClusterHeight = 12,
    cudaFuncAttributeRequiredClusterDepth = 13,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 14,
    cudaFuncAttributeClusterSchedulingPolicyPreference = 15
};
enum cudaSharedCarveout {
    cudaSharedmemCarveoutDefault = -1,
    cudaSharedmemCarveoutMaxL1 = 0,
    cudaSharedmemCarveoutMaxShared = 100
};
enum cudaFuncCache {
    cudaFuncCachePreferNone,
    cudaFuncCachePreferShared,
    cudaFuncCachePreferL1,
    cudaFuncCachePreferEqual
};
enum cudaSharedMemConfig {
    cudaSharedMemBankSizeDefault,
    cudaSharedMemBankSizeFourByte,
    cudaSharedMemBankSizeEightByte
};
// What nvcc says of the kernel, where it has judged the text; 0 otherwise. The bytes of constants are always 0.
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, maxDynamicSharedSizeBytes, preferredShmemCarveout;
    int clusterDimMustBeSet, requiredClusterWidth, requiredClusterHeight, requiredClusterDepth;
    int clusterSchedulingPolicyPreference, nonPortableClusterSizeAllowed;
};

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);
// Preferences that a GPU may ignore, as current ones do.
cudaError_t cudaFuncSetCacheConfig(const void* kernel, cudaFuncCache config);
cudaError_t cudaFuncSetSharedMemConfig(const void* kernel, cudaSharedMemConfig config);
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config);
cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config);
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config);
cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int block_threads,
                                                          size_t dynamic_bytes);
constexpr unsigned int cudaOccupancyDefault = 0, cudaOccupancyDisableCachingOverride = 1;
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* kernel, int blocks, int block_threads);

namespace cuda_on_cpu {
// `dynamic_bytes(data, threads)` is what a block of so many threads needs.
cudaError_t potential_block_size(int* blocks, int* block_threads, const void* kernel,
                                 size_t (*dynamic_bytes)(void* data, int threads), void* data, int most_threads);
}  // namespace cuda_on_cpu

template <class... A>
cudaError_t cudaFuncSetAttribute(void (*kernel)(A...), cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute((const void*)kernel, attribute, value);
}
template <class... A>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(A...)) {
    return cudaFuncGetAttributes(attributes, (const void*)kernel);
}
template <class... A>
cudaError_t cudaFuncSetCacheConfig(void (*kernel)(A...), cudaFuncCache config) {
    return cudaFuncSetCacheConfig((const void*)kernel, config);
}
template <class... A>
cudaError_t cudaFuncSetSharedMemConfig(void (*kernel)(A...), cudaSharedMemConfig config) {
    return cudaFuncSetSharedMemConfig((const void*)kernel, config);
}
template <class... A>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*kernel)(A...), int block_threads,
                                                          size_t dynamic_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void*)kernel, block_threads, dynamic_bytes);
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Kernel kernel, int block_threads,
                                                                   size_t dynamic_bytes, unsigned int flags) {
    if (flags > cudaOccupancyDisableCachingOverride) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, block_threads, dynamic_bytes);
}
template <class... A>
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, void (*kernel)(A...), int blocks,
                                                      int block_threads) {
    return cudaOccupancyAvailableDynamicSMemPerBlock(bytes, (const void*)kernel, blocks, block_threads);
}
template <class Bytes, class Kernel>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* blocks, int* block_threads, Kernel kernel,
                                                           Bytes dynamic_bytes, int most_threads = 0) {
    return cuda_on_cpu::potential_block_size(
        blocks, block_threads, (const void*)kernel,
        [](void* bytes, int threads) -> size_t { return (*static_cast<Bytes*>(bytes))(threads); }, &dynamic_bytes,
        most_threads);
}
template <class Kernel>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* blocks, int* block_threads, Kernel kernel,
                                               size_t dynamic_bytes = 0, int most_threads = 0) {
    return cudaOccupancyMaxPotentialBlockSizeVariableSMem(
        blocks, block_threads, kernel, [=](int) { return dynamic_bytes; }, most_threads);
}

namespace cuda_on_cpu {

// args[i] points at the i-th argument. A launch that was refused is both returned and the last error.
template <class... A, size_t... I>
cudaError_t launch(void (*kernel)(A...), Launch how, void** args, std::index_sequence<I...>) {
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    cudaError_t before = std::exchange(last_error(), cudaSuccess);
    ThroughPointer<A...>{kernel_name((const void*)kernel), how, kernel}(*static_cast<std::remove_reference_t<A>*>(args[I])...);
    cudaError_t error = last_error();
    if (!error) last_error() = before;
    return error;
}

// A kernel's address in a void* has lost the kernel's type, and with it how to pass its arguments. So a cast to void*
// of a kernel's name is translated to `::cuda_on_cpu::Untyped() ->* name`, which remembers that.
using LaunchUntyped = cudaError_t (*)(const void* kernel, const Launch& how, void** args);
void remember(const void* kernel, LaunchUntyped launch);
cudaError_t launch_untyped(const void* kernel, const Launch& how, void** args);

struct Untyped {};
template <class... A>
void* operator->*(Untyped, void (*kernel)(A...)) {
    remember((const void*)kernel, [](const void* untyped, const Launch& how, void** args) {
        return launch((void (*)(A...))untyped, how, args, std::index_sequence_for<A...>());
    });
    return (void*)kernel;
}

}  // namespace cuda_on_cpu

template <class... A>
cudaError_t cudaLaunchKernel(void (*kernel)(A...), dim3 grid, dim3 block, void** args, size_t shared_bytes = 0,
                             cudaStream_t stream = nullptr) {
    cuda_on_cpu::Launch how(grid, block, shared_bytes, stream);
    return cuda_on_cpu::launch(kernel, how, args, std::index_sequence_for<A...>());
}

inline cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared_bytes = 0,
                                    cudaStream_t stream = nullptr) {
    return cuda_on_cpu::launch_untyped(kernel, cuda_on_cpu::Launch(grid, block, shared_bytes, stream), args);
}

// All blocks run at once, so there may not be more than the device holds.
template <class... A>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(A...), dim3 grid, dim3 block, void** args,
                                        size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
    cuda_on_cpu::Launch how(grid, block, shared_bytes, stream);
    how.cooperative = true;
    return cuda_on_cpu::launch(kernel, how, args, std::index_sequence_for<A...>());
}
