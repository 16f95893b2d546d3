// The host's side of CUDA, where it has something to remember: allocations, streams, events, limits and the last error.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "cuda_runtime.h"
#include "../runtime/runtime.h"

struct CUstream_st {};
struct CUevent_st {
    unsigned int flags;
    bool recorded;
    std::chrono::steady_clock::time_point time;
};

namespace cuda_on_cpu {

static Mutex mutex;  // for all of these
static std::map<uintptr_t, Allocation> allocations;
static std::set<cudaStream_t> streams;
static std::set<cudaEvent_t> events;
static std::map<const void*, size_t> shared_limits;  // of the kernels for which cudaFuncSetAttribute set one

cudaError_t& last_error() {
    static thread_local cudaError_t error = cudaSuccess;
    return error;
}

cudaError_t answer(cudaError_t error) {
    if (error != cudaSuccess) last_error() = error;
    return error;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

static size_t machine_bytes() { return size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE)); }

// For whoever holds the mutex.
static const Allocation* allocation_of(const void* address) {
    auto behind = allocations.upper_bound(uintptr_t(address));
    if (behind == allocations.begin()) return nullptr;
    const auto& [base, allocation] = *std::prev(behind);
    return uintptr_t(address) - base < allocation.bytes ? &allocation : nullptr;
}

bool find_allocation(const void* address, Allocation& found) {
    std::lock_guard lock(mutex);
    const Allocation* allocation = allocation_of(address);
    if (allocation) found = *allocation;
    return allocation;
}

cudaError_t allocate(void** p, size_t bytes, Allocation::Kind kind) {
    constexpr size_t alignment = 256;
    if (!p) return answer(cudaErrorInvalidValue);
    *p = nullptr;
    if (!bytes) return cudaSuccess;
    if (bytes > machine_bytes()) return answer(cudaErrorMemoryAllocation);
    *p = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!*p) return answer(cudaErrorMemoryAllocation);
    std::lock_guard lock(mutex);
    allocations[uintptr_t(*p)] = {kind, *p, bytes};
    return cudaSuccess;
}

static cudaError_t release(void* p, bool of_host) {
    if (!p) return cudaSuccess;
    std::lock_guard lock(mutex);
    auto found = allocations.find(uintptr_t(p));
    if (found == allocations.end() || (found->second.kind == Allocation::host) != of_host)
        return answer(cudaErrorInvalidValue);
    allocations.erase(found);
    free(p);
    return cudaSuccess;
}

// `height` rows of `width` bytes, each `pitch` behind the last, must lie in one allocation, or in one tensor that the
// guard knows, if they begin in one.
static bool reaches_out(const void* p, size_t pitch, size_t width, size_t height) {
    Allocation in;
    size_t room;
    if (find_allocation(p, in))
        room = in.bytes - size_t((const char*)p - (const char*)in.base);
    else if (Place at; find_tensor(p, at))
        room = at.inside() ? at.bytes - size_t(at.address - at.begin) : 0;
    else
        return false;
    return width > room || (pitch && height - 1 > (room - width) / pitch);
}

// ---- kernels --------------------------------------------------------------------------------------------------------

size_t dynamic_shared_limit(const void* kernel) {
    std::lock_guard lock(mutex);
    if (kernel) {
        auto found = shared_limits.find(kernel);
        return found == shared_limits.end() ? profile.shared_bytes : found->second;
    }
    size_t limit = profile.shared_bytes;
    for (const auto& [_, bytes] : shared_limits) limit = std::max(limit, bytes);
    return limit;
}

// A function that the linker does not show to others (a static one) has no name here.
const char* kernel_name(const void* kernel) {
    static thread_local std::string name;
    Dl_info info;
    name = "the kernel";
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

// Blocks that one multiprocessor of the profile holds at once.
static int resident_blocks(long long block_threads, size_t shared_bytes) {
    size_t warps = size_t(block_threads + profile.warp_size - 1) / profile.warp_size;
    size_t by_threads = profile.multiprocessor_threads / (warps * profile.warp_size);
    size_t by_shared = profile.multiprocessor_shared_bytes / (shared_bytes + profile.reserved_shared_bytes);
    return int(std::min({by_threads, by_shared, size_t(profile.multiprocessor_blocks)}));
}

static bool is_stream(cudaStream_t stream) {
    if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return true;
    std::lock_guard lock(mutex);
    return streams.count(stream);
}

static bool is_event(cudaEvent_t event) {
    std::lock_guard lock(mutex);
    return events.count(event);
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cudaError_t cudaPeekAtLastError() { return last_error(); }
cudaError_t cudaGetLastError() { return std::exchange(last_error(), cudaSuccess); }

const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define CUDA_ON_CPU_ERROR(name, number, words) \
    case name: return #name;
        CUDA_ON_CPU_ERRORS(CUDA_ON_CPU_ERROR)
#undef CUDA_ON_CPU_ERROR
    }
    return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define CUDA_ON_CPU_ERROR(name, number, words) \
    case name: return words;
        CUDA_ON_CPU_ERRORS(CUDA_ON_CPU_ERROR)
#undef CUDA_ON_CPU_ERROR
    }
    return "unrecognized error code";
}

// ---- memory ---------------------------------------------------------------------------------------------------------

cudaError_t cudaFree(void* p) { return release(p, false); }
cudaError_t cudaFreeHost(void* p) { return release(p, true); }

cudaError_t cudaMallocPitch(void** p, size_t* pitch, size_t width, size_t height) {
    if (!p || !pitch || width > profile.max_pitch_bytes) return answer(cudaErrorInvalidValue);
    *pitch = (width + profile.pitch_bytes - 1) / profile.pitch_bytes * profile.pitch_bytes;
    if (*pitch && height > SIZE_MAX / *pitch) return answer(cudaErrorMemoryAllocation);
    return allocate(p, *pitch * height, Allocation::device);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    if (!free || !total) return answer(cudaErrorInvalidValue);
    *total = *free = machine_bytes();
#ifdef _SC_AVPHYS_PAGES
    *free = size_t(sysconf(_SC_AVPHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
#endif
    return cudaSuccess;
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return answer(cudaErrorInvalidMemcpyDirection);
    if (!width || !height) return cudaSuccess;
    bool too_wide = width > std::min(to_pitch, from_pitch);
    if (height > 1 && (too_wide || std::max(to_pitch, from_pitch) > profile.max_pitch_bytes))
        return answer(cudaErrorInvalidPitchValue);
    if (!to || !from || reaches_out(to, to_pitch, width, height) || reaches_out(from, from_pitch, width, height))
        return answer(cudaErrorInvalidValue);
    for (size_t row = 0; row < height; row++)
        memmove((char*)to + row * to_pitch, (const char*)from + row * from_pitch, width);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpy2D(to, 0, from, 0, bytes, 1, kind);
}

cudaError_t cudaMemset2D(void* p, size_t pitch, int value, size_t width, size_t height) {
    if (!width || !height) return cudaSuccess;
    if (!p || (height > 1 && width > pitch) || reaches_out(p, pitch, width, height))
        return answer(cudaErrorInvalidValue);
    for (size_t row = 0; row < height; row++) memset((char*)p + row * pitch, value, width);
    return cudaSuccess;
}

cudaError_t cudaMemset(void* p, int value, size_t bytes) { return cudaMemset2D(p, 0, value, bytes, 1); }

// ---- streams and events ---------------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
    if (!stream || flags > cudaStreamNonBlocking) return answer(cudaErrorInvalidValue);
    *stream = new CUstream_st;
    std::lock_guard lock(mutex);
    streams.insert(*stream);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    std::lock_guard lock(mutex);
    if (!streams.erase(stream)) return answer(cudaErrorInvalidResourceHandle);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return answer(is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return cudaStreamQuery(stream); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
    if (flags > 1) return answer(cudaErrorInvalidValue);
    return answer(is_stream(stream) && is_event(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    if (!function) return answer(cudaErrorInvalidValue);
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    function(data);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
    constexpr unsigned int interprocess = 4;
    if (!event || flags > 7 || ((flags & interprocess) && !(flags & cudaEventDisableTiming)))
        return answer(cudaErrorInvalidValue);
    *event = new CUevent_st{flags, false, {}};
    std::lock_guard lock(mutex);
    events.insert(*event);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    std::lock_guard lock(mutex);
    if (!events.erase(event)) return answer(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (!is_event(event) || !is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    event->recorded = true;
    event->time = std::chrono::steady_clock::now();
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return answer(is_event(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) { return cudaEventQuery(event); }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    if (!milliseconds) return answer(cudaErrorInvalidValue);
    for (cudaEvent_t event : {begin, end})
        if (!is_event(event) || !event->recorded || (event->flags & cudaEventDisableTiming))
            return answer(cudaErrorInvalidResourceHandle);
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
    return cudaSuccess;
}

// ---- the device -----------------------------------------------------------------------------------------------------

cudaError_t cudaGetDevice(int* device) {
    if (!device) return answer(cudaErrorInvalidValue);
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) { return answer(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }

cudaError_t cudaGetDeviceCount(int* count) {
    if (!count) return answer(cudaErrorInvalidValue);
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    if (!properties) return answer(cudaErrorInvalidValue);
    if (device != 0) return answer(cudaErrorInvalidDevice);
    const Profile& p = profile;
    cudaDeviceProp all{};
    snprintf(all.name, sizeof all.name, "%s", p.name);
    all.totalGlobalMem = machine_bytes();
    all.sharedMemPerBlock = p.shared_bytes;
    all.sharedMemPerBlockOptin = p.shared_bytes_opt_in;
    all.sharedMemPerMultiprocessor = p.multiprocessor_shared_bytes;
    all.reservedSharedMemPerBlock = p.reserved_shared_bytes;
    all.totalConstMem = p.constant_bytes;
    all.memPitch = p.max_pitch_bytes;
    all.major = p.major;
    all.minor = p.minor;
    all.warpSize = int(p.warp_size);
    all.multiProcessorCount = p.multiprocessors;
    all.maxThreadsPerBlock = int(p.block_threads);
    std::copy(std::begin(p.block_dim), std::end(p.block_dim), all.maxThreadsDim);
    std::copy(std::begin(p.grid_dim), std::end(p.grid_dim), all.maxGridSize);
    all.maxThreadsPerMultiProcessor = int(p.multiprocessor_threads);
    all.maxBlocksPerMultiProcessor = int(p.multiprocessor_blocks);
    all.regsPerBlock = all.regsPerMultiprocessor = p.registers;
    all.l2CacheSize = int(p.l2_bytes);
    all.clockRate = p.clock_khz;
    all.integrated = all.canMapHostMemory = all.unifiedAddressing = 1;
    all.managedMemory = all.concurrentManagedAccess = all.pageableMemoryAccess = 1;
    all.cooperativeLaunch = all.memoryPoolsSupported = 1;
    *properties = all;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    if (!value) return answer(cudaErrorInvalidValue);
    cudaDeviceProp p;
    if (cudaError_t error = cudaGetDeviceProperties(&p, device)) return error;
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
        case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
        case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
        case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
        case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
        case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
        case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = int(p.sharedMemPerBlock); break;
        case cudaDevAttrTotalConstantMemory: *value = int(p.totalConstMem); break;
        case cudaDevAttrWarpSize: *value = p.warpSize; break;
        case cudaDevAttrMaxPitch: *value = int(p.memPitch); break;
        case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
        case cudaDevAttrClockRate: *value = p.clockRate; break;
        case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
        case cudaDevAttrIntegrated: *value = p.integrated; break;
        case cudaDevAttrCanMapHostMemory: *value = p.canMapHostMemory; break;
        case cudaDevAttrComputeMode: *value = p.computeMode; break;
        case cudaDevAttrConcurrentKernels: *value = p.concurrentKernels; break;
        case cudaDevAttrMemoryClockRate: *value = p.memoryClockRate; break;
        case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
        case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
        case cudaDevAttrAsyncEngineCount: *value = p.asyncEngineCount; break;
        case cudaDevAttrUnifiedAddressing: *value = p.unifiedAddressing; break;
        case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
        case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = int(p.sharedMemPerMultiprocessor); break;
        case cudaDevAttrMaxRegistersPerMultiprocessor: *value = p.regsPerMultiprocessor; break;
        case cudaDevAttrManagedMemory: *value = p.managedMemory; break;
        case cudaDevAttrPageableMemoryAccess: *value = p.pageableMemoryAccess; break;
        case cudaDevAttrConcurrentManagedAccess: *value = p.concurrentManagedAccess; break;
        case cudaDevAttrCooperativeLaunch: *value = p.cooperativeLaunch; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = int(p.sharedMemPerBlockOptin); break;
        case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
        case cudaDevAttrReservedSharedMemoryPerBlock: *value = int(p.reservedSharedMemPerBlock); break;
        case cudaDevAttrMemoryPoolsSupported: *value = p.memoryPoolsSupported; break;
        default: return answer(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
    if (!version) return answer(cudaErrorInvalidValue);
    *version = profile.version;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

cudaError_t cudaDeviceReset() {
    std::lock_guard lock(mutex);
    for (auto& [_, allocation] : allocations) free(allocation.base);
    for (cudaStream_t stream : streams) delete stream;
    for (cudaEvent_t event : events) delete event;
    allocations.clear();
    streams.clear();
    events.clear();
    shared_limits.clear();
    last_error() = cudaSuccess;
    return cudaSuccess;
}

// ---- kernels --------------------------------------------------------------------------------------------------------

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout)
        return answer(value >= -1 && value <= 100 ? cudaSuccess : cudaErrorInvalidValue);
    bool fits = value >= 0 && size_t(value) <= profile.shared_bytes_opt_in;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || !fits) return answer(cudaErrorInvalidValue);
    std::lock_guard lock(mutex);
    shared_limits[kernel] = size_t(value);
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
    if (!attributes) return answer(cudaErrorInvalidValue);
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    *attributes = {};
    attributes->maxThreadsPerBlock = int(profile.block_threads);
    attributes->ptxVersion = attributes->binaryVersion = profile.major * 10 + profile.minor;
    attributes->maxDynamicSharedSizeBytes = int(dynamic_shared_limit(kernel));
    attributes->preferredShmemCarveout = cudaSharedmemCarveoutDefault;
    return cudaSuccess;
}

cudaError_t cudaFuncSetCacheConfig(const void* kernel, cudaFuncCache config) {
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    bool known = config >= cudaFuncCachePreferNone && config <= cudaFuncCachePreferEqual;
    return answer(known ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int block_threads,
                                                          size_t dynamic_bytes) {
    if (!blocks || block_threads <= 0) return answer(cudaErrorInvalidValue);
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    bool allowed = unsigned(block_threads) <= profile.block_threads && dynamic_bytes <= dynamic_shared_limit(kernel);
    *blocks = allowed ? resident_blocks(block_threads, dynamic_bytes) : 0;
    return cudaSuccess;
}

// Of the block sizes with the most threads on a multiprocessor, the largest: whole warps, but for a limit below one.
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* blocks, int* block_threads, const void* kernel,
                                               size_t dynamic_bytes, int most_threads) {
    if (!blocks || !block_threads || most_threads < 0) return answer(cudaErrorInvalidValue);
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    int most = int(profile.block_threads), warp = int(profile.warp_size), best = 0;
    if (most_threads) most = std::min(most, most_threads);
    *blocks = *block_threads = 0;
    for (int rounded = (most + warp - 1) / warp * warp; rounded > 0; rounded -= warp) {
        int threads = std::min(rounded, most), resident = 0;
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, dynamic_bytes);
        if (resident * threads <= best) continue;
        best = resident * threads;
        *block_threads = threads;
        *blocks = resident * profile.multiprocessors;
    }
    return cudaSuccess;
}
