// What the host asks about a kernel: its name, how much dynamic shared memory a launch may give it, and how many of its
// blocks a multiprocessor holds.
#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "cuda_runtime.h"
#include "resources.h"
#include "../guard/space.h"
#include "../runtime/profile.h"
#include "../runtime/runtime.h"

namespace cuda_on_cpu {

static Mutex kernels_mutex;
static std::map<const void*, size_t> shared_limits;  // of the kernels for which cudaFuncSetAttribute set one
static std::set<const void*> with_large_clusters;     // likewise
static std::map<const void*, KernelBounds> all_bounds;

std::optional<size_t> allowed_shared(const void* kernel) {
    std::lock_guard lock(kernels_mutex);
    if (shared_limits.empty()) return {};
    if (kernel) {
        auto found = shared_limits.find(kernel);
        return found == shared_limits.end() ? std::nullopt : std::optional(found->second);
    }
    size_t limit = profile.shared_bytes;
    for (const auto& [_, bytes] : shared_limits) limit = std::max(limit, bytes);
    return limit;
}

// Bytes of dynamic shared memory with which a kernel that takes this much may be launched.
static size_t dynamic_shared_limit(const void* kernel, const Resources& taken) {
    return allowed_shared(kernel).value_or(profile.shared_bytes - taken.shared_bytes);
}

// Warps that a multiprocessor has registers for. Each of its four parts has a quarter of them.
static size_t warps_with(int registers) {
    const Profile& p = profile;
    const size_t of_warp = (registers * p.warp_size + p.register_unit - 1) / p.register_unit * p.register_unit;
    return p.registers / p.parts / of_warp * p.parts;
}

size_t threads_with(int registers) { return std::min(warps_with(registers) * profile.warp_size, size_t(profile.block_threads)); }

bool large_clusters(const void* kernel) {
    std::lock_guard lock(kernels_mutex);
    return with_large_clusters.count(kernel);
}

void remember(const void* kernel, const KernelBounds& bounds) {
    std::lock_guard lock(kernels_mutex);
    all_bounds[kernel] = bounds;
}

KernelBounds bounds_of(const void* kernel) {
    {
        std::lock_guard lock(kernels_mutex);
        if (auto found = all_bounds.find(kernel); found != all_bounds.end()) return found->second;
    }
    return {resources(kernel).value_or(Resources()).most_threads};
}

// A function that the linker does not show to others (a static one) has no name here.
const char* kernel_name(const void* kernel, const char* otherwise) {
    static thread_local std::string name;
    Dl_info info;
    name = otherwise;
    if (dladdr(kernel, &info) && info.dli_sname && info.dli_saddr == kernel) {
        name = demangled(info.dli_sname);  // void scale<float>(float*, int): keep what is launched
        size_t angles = 0, end = 0;
        for (; end < name.size() && (angles || name[end] != '('); end++)
            angles += (name[end] == '<') - (name[end] == '>');
        name.resize(end);
        if (name.starts_with("void ")) name.erase(0, 5);
    }
    return name.c_str();
}

// One byte for each function whose address host code takes: nothing is there.
static constexpr size_t most_host_addresses = 4096;
static char* const host_addresses = reserve(most_host_addresses);

const void* address_on_host(const void* function) {
    static std::map<const void*, size_t> known;
    std::lock_guard lock(kernels_mutex);
    if (!host_addresses || known.size() == most_host_addresses) return function;
    return host_addresses + known.try_emplace(function, known.size()).first->second;
}

bool is_host_address(const char* address) {
    return host_addresses && address >= host_addresses && address < host_addresses + most_host_addresses;
}

// As NVIDIA's occupancy calculator counts (cuda_occupancy.h of the toolkit; utils/cuda/gpu/occupancy.py). The registers
// of a kernel that nvcc has not compiled are 0.
int resident_blocks(long long block_threads, size_t shared_bytes, int registers) {
    const Profile& p = profile;
    size_t warps = size_t(block_threads + p.warp_size - 1) / p.warp_size;
    size_t blocks = std::min<size_t>(p.multiprocessor_blocks, p.multiprocessor_threads / (warps * p.warp_size));
    size_t shared = (shared_bytes + p.reserved_shared_bytes + p.shared_unit - 1) / p.shared_unit * p.shared_unit;
    if (shared) blocks = std::min(blocks, p.multiprocessor_shared_bytes / shared);
    if (registers) blocks = std::min(blocks, warps_with(registers) / warps);
    return int(blocks);
}

static Mutex untyped_mutex;
static std::map<const void*, LaunchUntyped> untyped;  // by the kernel's address

void remember(const void* kernel, LaunchUntyped launch) {
    std::lock_guard lock(untyped_mutex);
    untyped[kernel] = launch;
}

cudaError_t launch_untyped(const void* kernel, const Launch& how, void** args) {
    LaunchUntyped launch = nullptr;
    {
        std::lock_guard lock(untyped_mutex);
        if (auto found = untyped.find(kernel); found != untyped.end()) launch = found->second;
    }
    return launch ? launch(kernel, how, args) : answer(cudaErrorInvalidDeviceFunction);
}

void forget_shared_limits() {
    std::lock_guard lock(kernels_mutex);
    shared_limits.clear();
    with_large_clusters.clear();
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    if (cudaError_t error = device_error()) return error;
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout)
        return answer(value >= -1 && value <= 100 ? cudaSuccess : cudaErrorInvalidValue);
    if (attribute == cudaFuncAttributeClusterSchedulingPolicyPreference)
        return answer(value >= 0 && value <= 2 ? cudaSuccess : cudaErrorInvalidValue);
    if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
        if (profile.capability < 90) return answer(cudaErrorInvalidValue);
        std::lock_guard lock(kernels_mutex);
        if (value) with_large_clusters.insert(kernel);
        else with_large_clusters.erase(kernel);
        return cudaSuccess;
    }
    const size_t own = resources(kernel).value_or(Resources()).shared_bytes;
    bool fits = value >= 0 && size_t(value) + own <= profile.shared_bytes_opt_in;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || !fits) return answer(cudaErrorInvalidValue);
    std::lock_guard lock(kernels_mutex);
    shared_limits[kernel] = size_t(value);
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
    if (here) return cudaErrorUnknown;  // as CUDA's device runtime without -rdc=true
    if (!attributes) return answer(cudaErrorInvalidValue);
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    if (cudaError_t error = device_error()) return error;
    *attributes = {};
    const Resources taken = resources(kernel).value_or(Resources());
    attributes->numRegs = taken.registers;
    attributes->sharedSizeBytes = taken.shared_bytes;
    attributes->localSizeBytes = taken.local_bytes;
    attributes->maxThreadsPerBlock = int(taken.registers ? threads_with(taken.registers) : profile.block_threads);
    if (const unsigned most = bounds_of(kernel).most_threads) attributes->maxThreadsPerBlock = int(most);
    attributes->ptxVersion = attributes->binaryVersion = profile.capability;
    attributes->maxDynamicSharedSizeBytes = int(dynamic_shared_limit(kernel, taken));
    attributes->preferredShmemCarveout = cudaSharedmemCarveoutDefault;
    const dim3 cluster = bounds_of(kernel).cluster;
    attributes->clusterDimMustBeSet = cluster.x != 0;
    attributes->requiredClusterWidth = int(cluster.x);
    attributes->requiredClusterHeight = int(cluster.y);
    attributes->requiredClusterDepth = int(cluster.z);
    attributes->nonPortableClusterSizeAllowed = large_clusters(kernel);
    return cudaSuccess;
}

cudaError_t cudaFuncSetCacheConfig(const void* kernel, cudaFuncCache config) {
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    bool known = config >= cudaFuncCachePreferNone && config <= cudaFuncCachePreferEqual;
    return answer(known ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaFuncSetSharedMemConfig(const void* kernel, cudaSharedMemConfig config) {
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    return cudaDeviceSetSharedMemConfig(config);
}

static cudaFuncCache preferred_cache = cudaFuncCachePreferNone;

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
    if (config < cudaFuncCachePreferNone || config > cudaFuncCachePreferEqual) return answer(cudaErrorInvalidValue);
    preferred_cache = config;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
    if (!config) return answer(cudaErrorInvalidValue);
    *config = preferred_cache;
    return cudaSuccess;
}
// Banks are 4 bytes wide, whatever is asked for.
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config) {
    bool known = config >= cudaSharedMemBankSizeDefault && config <= cudaSharedMemBankSizeEightByte;
    return answer(known ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
    if (!config) return answer(cudaErrorInvalidValue);
    *config = cudaSharedMemBankSizeFourByte;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int block_threads,
                                                          size_t dynamic_bytes) {
    if (here) return cudaErrorUnknown;  // as CUDA's device runtime without -rdc=true
    if (!blocks || block_threads <= 0) return answer(cudaErrorInvalidValue);
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    if (cudaError_t error = device_error()) return error;
    const Resources taken = resources(kernel).value_or(Resources());
    bool allowed = unsigned(block_threads) <= profile.block_threads && dynamic_bytes <= dynamic_shared_limit(kernel, taken);
    *blocks = allowed ? resident_blocks(block_threads, taken.shared_bytes + dynamic_bytes, taken.registers) : 0;
    return cudaSuccess;
}

// The most with which so many blocks fit on a multiprocessor.
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* kernel, int blocks,
                                                      int block_threads) {
    int resident = 0;
    if (!bytes || blocks <= 0) return answer(cudaErrorInvalidValue);
    if (auto error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, block_threads, 0)) return error;
    if (resident < blocks) return answer(cudaErrorInvalidValue);
    const Profile& p = profile;
    const Resources taken = resources(kernel).value_or(Resources());
    size_t share = p.multiprocessor_shared_bytes / blocks / p.shared_unit * p.shared_unit;  // as an H200: with the system's
    *bytes = std::min(share - std::min(share, taken.shared_bytes), dynamic_shared_limit(kernel, taken));
    return cudaSuccess;
}

// Of the block sizes with the most threads on a multiprocessor, the largest: whole warps, but for a limit below one.
cudaError_t cuda_on_cpu::potential_block_size(int* blocks, int* block_threads, const void* kernel,
                                              size_t (*dynamic_bytes)(void* data, int threads), void* data,
                                              int most_threads) {
    if (!blocks || !block_threads || most_threads < 0) return answer(cudaErrorInvalidValue);
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    int most = int(profile.block_threads), warp = int(profile.warp_size), best = 0;
    for (int limit : {most_threads, int(bounds_of(kernel).most_threads)})
        if (limit) most = std::min(most, limit);
    *blocks = *block_threads = 0;
    for (int rounded = (most + warp - 1) / warp * warp; rounded > 0; rounded -= warp) {
        int threads = std::min(rounded, most), resident = 0;
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, dynamic_bytes(data, threads));
        if (resident * threads <= best) continue;
        best = resident * threads;
        *block_threads = threads;
        *blocks = resident * profile.multiprocessors;
    }
    return cudaSuccess;
}
