// Launches with attributes, and what the host can ask about clusters (host/launches.cpp).
#pragma once

#include "kernels.h"
#include "streams.h"

enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore = 0,
    cudaLaunchAttributeAccessPolicyWindow = 1,
    cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeSynchronizationPolicy = 3,
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeClusterSchedulingPolicyPreference = 5,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6,
    cudaLaunchAttributeProgrammaticEvent = 7,
    cudaLaunchAttributePriority = 8,
    cudaLaunchAttributeMemSyncDomainMap = 9,
    cudaLaunchAttributeMemSyncDomain = 10,
    cudaLaunchAttributePreferredClusterDimension = 11,
    cudaLaunchAttributeLaunchCompletionEvent = 12,
    cudaLaunchAttributePreferredSharedMemoryCarveout = 14
};
enum cudaClusterSchedulingPolicy {
    cudaClusterSchedulingPolicyDefault,
    cudaClusterSchedulingPolicySpread,
    cudaClusterSchedulingPolicyLoadBalancing
};
enum cudaLaunchMemSyncDomain { cudaLaunchMemSyncDomainDefault, cudaLaunchMemSyncDomainRemote };
struct cudaLaunchMemSyncDomainMap {
    unsigned char default_, remote;
};
union cudaLaunchAttributeValue {
    char pad[64];
    int cooperative;
    struct {
        unsigned int x, y, z;
    } clusterDim;
    cudaClusterSchedulingPolicy clusterSchedulingPolicyPreference;
    int programmaticStreamSerializationAllowed;
    struct {
        cudaEvent_t event;
        int flags, triggerAtBlockStart;
    } programmaticEvent;
    int priority;
    cudaLaunchMemSyncDomainMap memSyncDomainMap;
    cudaLaunchMemSyncDomain memSyncDomain;
    struct {
        unsigned int x, y, z;
    } preferredClusterDim;
    struct {
        cudaEvent_t event;
        int flags;
    } launchCompletionEvent;
    unsigned int sharedMemCarveout;
};
struct cudaLaunchAttribute_st {
    cudaLaunchAttributeID id;
    char pad[8 - sizeof(cudaLaunchAttributeID)];
    cudaLaunchAttributeValue val;
};
typedef cudaLaunchAttribute_st cudaLaunchAttribute;
struct cudaLaunchConfig_st {
    dim3 gridDim_, blockDim_;  // as own_names.py calls members of these names
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned int numAttrs;
};
typedef cudaLaunchConfig_st cudaLaunchConfig_t;

namespace cuda_on_cpu {
// The launch that a configuration describes. Attributes that only say when a kernel may begin, or how fast it should be,
// change nothing here.
cudaError_t configured(const cudaLaunchConfig_t* config, Launch& launch);
void launched(const cudaLaunchConfig_t* config);  // records the events that its attributes name
}  // namespace cuda_on_cpu

template <class... A>
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, void (*kernel)(A...), void** args) {
    cuda_on_cpu::Launch how({});
    if (cudaError_t error = cuda_on_cpu::configured(config, how)) return error;
    cudaError_t error = cuda_on_cpu::launch(kernel, how, args, std::index_sequence_for<A...>());
    if (!error) cuda_on_cpu::launched(config);
    return error;
}
inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** args) {
    cuda_on_cpu::Launch how({});
    if (cudaError_t error = cuda_on_cpu::configured(config, how)) return error;
    cudaError_t error = cuda_on_cpu::launch_untyped(kernel, how, args);
    if (!error) cuda_on_cpu::launched(config);
    return error;
}
template <class... Expected, class... Given>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Expected...), Given&&... given) {
    return [&](Expected... args) {
        void* pointers[] = {(void*)&args..., nullptr};
        return cudaLaunchKernelExC(config, kernel, pointers);
    }(std::forward<Given>(given)...);
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* kernel, const cudaLaunchConfig_t* config);
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* kernel, const cudaLaunchConfig_t* config);
template <class... A>
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void (*kernel)(A...), const cudaLaunchConfig_t* config) {
    return cudaOccupancyMaxActiveClusters(clusters, (const void*)kernel, config);
}
template <class... A>
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, void (*kernel)(A...), const cudaLaunchConfig_t* config) {
    return cudaOccupancyMaxPotentialClusterSize(blocks, (const void*)kernel, config);
}
