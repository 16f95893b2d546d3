// The device as the host sees it: one, with the limits of runtime/profile.h. And the reset, which forgets all that this folder
// keeps.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "cuda_runtime.h"
#include "../runtime/profile.h"
#include "../runtime/runtime.h"

using namespace cuda_on_cpu;

cudaError_t cudaGetDevice(int* device) {
    if (here) return cudaErrorUnknown;  // as CUDA's device runtime without -rdc=true
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
    all.major = p.capability / 10;
    all.minor = p.capability % 10;
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
    all.memoryClockRate = p.memory_clock_khz;
    all.memoryBusWidth = p.memory_bus_bits;
    all.integrated = all.canMapHostMemory = all.unifiedAddressing = 1;
    all.managedMemory = all.concurrentManagedAccess = all.pageableMemoryAccess = 1;
    all.cooperativeLaunch = all.memoryPoolsSupported = all.streamPrioritiesSupported = 1;
    all.hostRegisterSupported = all.canUseHostPointerForRegisteredMem = all.hostNativeAtomicSupported = 1;
    all.directManagedMemAccessFromHost = all.pageableMemoryAccessUsesHostPageTables = 1;
    all.clusterLaunch = p.capability >= 90;
    all.textureAlignment = 512;  // for sources that print it; there are no textures here
    all.texturePitchAlignment = 32;
    *properties = all;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    if (here) return cudaErrorUnknown;  // as CUDA's device runtime without -rdc=true
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
        case cudaDevAttrClusterLaunch: *value = p.clusterLaunch; break;
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
    forget_allocations();
    forget_streams();
    forget_shared_limits();
    forget_heap();
    find_device_again();
    last_error() = cudaSuccess;
    return cudaSuccess;
}

// ---- one device, alone ----------------------------------------------------------------------------------------------

static constexpr char bus_id[] = "0000:00:00.0";

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
    if (!id || length < 13) return answer(cudaErrorInvalidValue);
    if (device) return answer(cudaErrorInvalidDevice);
    snprintf(id, size_t(length), "%s", bus_id);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
    if (!device || !id) return answer(cudaErrorInvalidValue);
    if (strcmp(id, bus_id)) return answer(cudaErrorInvalidDevice);
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* wanted) {
    if (!wanted) return answer(cudaErrorInvalidValue);
    return cudaGetDevice(device);
}

cudaError_t cudaSetValidDevices(int* devices, int count) {
    if (!devices || count < 1) return answer(cudaErrorInvalidValue);
    return answer(std::count(devices, devices + count, 0) == count ? cudaSuccess : cudaErrorInvalidDevice);
}

static unsigned int device_flags = cudaDeviceScheduleAuto;

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
    if (flags & ~31u || (flags & 7) == 3 || (flags & 7) > 4) return answer(cudaErrorInvalidValue);
    device_flags = flags;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
    if (!flags) return answer(cudaErrorInvalidValue);
    *flags = device_flags | cudaDeviceMapHost;
    return cudaSuccess;
}

// What CUDA 13 answers before anything is set. Of these, the engine keeps to the size of kernels' heap.
static size_t limits[] = {1024, 1 << 20, 8 << 20, 2, 2048, 64, 0};

size_t cuda_on_cpu::kernels_heap_limit() { return limits[cudaLimitMallocHeapSize]; }

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
    if (limit < cudaLimitStackSize || limit > cudaLimitPersistingL2CacheSize) return answer(cudaErrorUnsupportedLimit);
    limits[limit] = value;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
    if (!value) return answer(cudaErrorInvalidValue);
    if (limit < cudaLimitStackSize || limit > cudaLimitPersistingL2CacheSize) return answer(cudaErrorUnsupportedLimit);
    *value = limits[limit];
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    if (!can) return answer(cudaErrorInvalidValue);
    *can = 0;
    return answer(device == 0 && peer == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

// CUDA refuses a device and itself, and there is no other.
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int, int) {
    return answer(value ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned int flags) {
    return answer(flags ? cudaErrorInvalidValue : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    return answer(peer ? cudaErrorInvalidDevice : cudaErrorPeerAccessNotEnabled);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) { return answer(cudaErrorNotSupported); }
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned int) { return answer(cudaErrorNotSupported); }
cudaError_t cudaIpcCloseMemHandle(void*) { return answer(cudaErrorNotSupported); }
