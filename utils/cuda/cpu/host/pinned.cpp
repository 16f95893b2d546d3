// The host's own memory as the device sees it, what a pointer points to, and pools. Here all memory is one.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "streams.h"
#include "../trace/trace.h"

extern "C" void cuda_on_cpu_trace_freed(void* base);  // exports.cpp

struct CUmemPoolHandle_st {
    uint64_t threshold = 0;
    uint64_t used = 0, most_used = 0;
    int reuse[4] = {0, 1, 1, 1};
};

namespace cuda_on_cpu {

static Mutex pinned_mutex;
struct Registered { size_t bytes; unsigned int flags; };
static std::map<uintptr_t, Registered> registered_ranges;  // by address
static CUmemPoolHandle_st default_pool;
static cudaMemPool_t current_pool = &default_pool;
static std::set<cudaMemPool_t> pools{&default_pool};
static std::map<void*, std::pair<cudaMemPool_t, size_t>> from_pools;

// The registered range that holds the address; nullptr if there is none. The caller holds pinned_mutex.
static const Registered* range_of(const void* p) {
    auto behind = registered_ranges.upper_bound(uintptr_t(p));
    if (behind == registered_ranges.begin()) return nullptr;
    auto& [begin, range] = *std::prev(behind);
    return uintptr_t(p) - begin < range.bytes ? &range : nullptr;
}

static void tell_trace(uintptr_t p, size_t bytes) {
    trace_allocated(reinterpret_cast<void*>(p), bytes, "memory from cudaHostRegister");
}
void trace_registered() {
    std::lock_guard lock(pinned_mutex);
    for (const auto& [p, range] : registered_ranges) tell_trace(p, range.bytes);
}

static bool is_pool(cudaMemPool_t pool) { return pools.count(pool); }

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned int flags) {
    if (!p || !bytes || flags > 15) return answer(cudaErrorInvalidValue);
    if (cudaError_t error = device_error()) return error;
    Allocation found;
    if (find_allocation(p, found)) return answer(cudaErrorHostMemoryAlreadyRegistered);
    std::lock_guard lock(pinned_mutex);
    auto next = registered_ranges.lower_bound(uintptr_t(p));
    if (range_of(p) || (next != registered_ranges.end() && next->first < uintptr_t(p) + bytes))
        return answer(cudaErrorHostMemoryAlreadyRegistered);
    registered_ranges[uintptr_t(p)] = {bytes, flags};
    tell_trace(uintptr_t(p), bytes);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* p) {
    if (!p) return answer(cudaErrorInvalidValue);
    std::lock_guard lock(pinned_mutex);
    if (!registered_ranges.erase(uintptr_t(p))) return answer(cudaErrorHostMemoryNotRegistered);
    cuda_on_cpu_trace_freed(p);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int flags) {
    if (!device || !host || flags) return answer(cudaErrorInvalidValue);
    if (cudaError_t error = device_error()) return error;
    Allocation found;
    bool known = find_allocation(host, found) && found.kind != Allocation::device;
    std::lock_guard lock(pinned_mutex);
    if (!known && !range_of(host)) return answer(cudaErrorInvalidValue);
    *device = host;
    return cudaSuccess;
}

cudaError_t cudaHostGetFlags(unsigned int* flags, void* host) {
    if (!flags || !host) return answer(cudaErrorInvalidValue);
    Allocation found;
    std::lock_guard lock(pinned_mutex);
    const Registered* range = range_of(host);
    if (!range && !(find_allocation(host, found) && found.kind == Allocation::host))
        return answer(cudaErrorInvalidValue);
    *flags = (range ? range->flags : 0) | cudaHostAllocMapped;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
    if (!attributes) return answer(cudaErrorInvalidValue);
    *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, nullptr};
    Allocation found;
    if (Place tensor; find_allocation(p, found)) {
        attributes->type = found.kind == Allocation::host      ? cudaMemoryTypeHost
                           : found.kind == Allocation::managed ? cudaMemoryTypeManaged
                                                               : cudaMemoryTypeDevice;
    } else if (std::lock_guard lock(pinned_mutex); range_of(p)) {
        attributes->type = cudaMemoryTypeHost;
    } else if (find_tensor(p, tensor) && tensor.inside()) {
        attributes->type = cudaMemoryTypeDevice;
    } else {
        attributes->hostPointer = const_cast<void*>(p);
        return cudaSuccess;
    }
    attributes->device = 0;
    attributes->devicePointer = const_cast<void*>(p);
    if (attributes->type != cudaMemoryTypeDevice) attributes->hostPointer = attributes->devicePointer;
    return cudaSuccess;
}

cudaError_t cudaMemAdvise(const void* p, size_t bytes, cudaMemoryAdvise advice, int device) {
    if (advice < cudaMemAdviseSetReadMostly || advice > cudaMemAdviseUnsetAccessedBy || !bytes)
        return answer(cudaErrorInvalidValue);
    if (device != 0 && device != cudaCpuDeviceId) return answer(cudaErrorInvalidDevice);
    Allocation found;
    return answer(find_allocation(p, found) && found.kind == Allocation::managed ? cudaSuccess : cudaErrorInvalidValue);
}

// ---- pools ----------------------------------------------------------------------------------------------------------

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    if (!pool) return answer(cudaErrorInvalidValue);
    if (device) return answer(cudaErrorInvalidDevice);
    *pool = &default_pool;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
    if (!pool) return answer(cudaErrorInvalidValue);
    if (device) return answer(cudaErrorInvalidDevice);
    std::lock_guard lock(pinned_mutex);
    *pool = current_pool;
    return cudaSuccess;
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    std::lock_guard lock(pinned_mutex);
    if (device || !is_pool(pool)) return answer(device ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    current_pool = pool;
    return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
    if (!pool || !properties || properties->allocType != cudaMemAllocationTypePinned ||
        properties->location.type != cudaMemLocationTypeDevice || properties->location.id)
        return answer(cudaErrorInvalidValue);
    std::lock_guard lock(pinned_mutex);
    pools.insert(*pool = new CUmemPoolHandle_st);
    return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    std::lock_guard lock(pinned_mutex);
    if (pool == &default_pool || !pools.erase(pool)) return answer(cudaErrorInvalidValue);
    if (current_pool == pool) current_pool = &default_pool;
    std::erase_if(from_pools, [&](auto& one) { return one.second.first == pool; });
    delete pool;
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    std::lock_guard lock(pinned_mutex);
    if (!value || !is_pool(pool)) return answer(cudaErrorInvalidValue);
    if (attribute >= cudaMemPoolReuseFollowEventDependencies && attribute < cudaMemPoolAttrReleaseThreshold)
        pool->reuse[attribute] = *static_cast<int*>(value);
    else if (attribute == cudaMemPoolAttrReleaseThreshold)
        pool->threshold = *static_cast<uint64_t*>(value);
    else if ((attribute == cudaMemPoolAttrReservedMemHigh || attribute == cudaMemPoolAttrUsedMemHigh) &&
             !*static_cast<uint64_t*>(value))
        pool->most_used = pool->used;
    else
        return answer(cudaErrorInvalidValue);
    return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    std::lock_guard lock(pinned_mutex);
    if (!value || !is_pool(pool)) return answer(cudaErrorInvalidValue);
    switch (attribute) {
        case cudaMemPoolReuseFollowEventDependencies:
        case cudaMemPoolReuseAllowOpportunistic:
        case cudaMemPoolReuseAllowInternalDependencies:
            *static_cast<int*>(value) = pool->reuse[attribute];
            return cudaSuccess;
        case cudaMemPoolAttrReleaseThreshold: *static_cast<uint64_t*>(value) = pool->threshold; return cudaSuccess;
        case cudaMemPoolAttrReservedMemCurrent:
        case cudaMemPoolAttrUsedMemCurrent: *static_cast<uint64_t*>(value) = pool->used; return cudaSuccess;
        case cudaMemPoolAttrReservedMemHigh:
        case cudaMemPoolAttrUsedMemHigh: *static_cast<uint64_t*>(value) = pool->most_used; return cudaSuccess;
    }
    return answer(cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
    std::lock_guard lock(pinned_mutex);
    return answer(is_pool(pool) ? cudaSuccess : cudaErrorInvalidValue);
}

// `pool` is nullptr for the device's current one.
cudaError_t cudaMallocFromPoolAsync(void** p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    // In a graph the allocation would be the graph's own. Here its address must be known: so it is made now.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaError_t error = allocate(p, bytes, Allocation::device);
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (error) return error;
    std::lock_guard lock(pinned_mutex);
    if (!pool) pool = current_pool;
    if (!is_pool(pool)) return answer(cudaErrorInvalidValue);
    from_pools[*p] = {pool, bytes};
    pool->used += bytes;
    pool->most_used = std::max(pool->most_used, pool->used);
    return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    if (CUstream_st* s = stream_of(stream); s && s->capture)  // each launch of the graph uses it again
        return enqueue(stream, cudaGraphNodeTypeMemFree, [] { return cudaSuccess; });
    {
        std::lock_guard lock(pinned_mutex);
        if (auto found = from_pools.find(p); found != from_pools.end()) {
            found->second.first->used -= found->second.second;
            from_pools.erase(found);
        }
    }
    return cudaFree(p);
}
