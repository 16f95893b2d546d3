// Launches with attributes, and how many clusters the device runs at the same time.
#include <algorithm>

#include "cuda_runtime.h"
#include "resources.h"
#include "../runtime/profile.h"
#include "../runtime/runtime.h"

namespace cuda_on_cpu {

cudaError_t configured(const cudaLaunchConfig_t* config, Launch& launch) {
    if (!config || (config->numAttrs && !config->attrs)) return answer(cudaErrorInvalidValue);
    launch = Launch(config->gridDim_, config->blockDim_, config->dynamicSmemBytes, config->stream);
    for (unsigned int i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttributeValue& value = config->attrs[i].val;
        switch (config->attrs[i].id) {
            case cudaLaunchAttributeCooperative: launch.cooperative = value.cooperative; break;
            case cudaLaunchAttributeClusterDimension:
                launch.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
                break;
            case cudaLaunchAttributeIgnore:
            case cudaLaunchAttributeAccessPolicyWindow:
            case cudaLaunchAttributeSynchronizationPolicy:
            case cudaLaunchAttributeClusterSchedulingPolicyPreference:
            case cudaLaunchAttributeProgrammaticStreamSerialization:
            case cudaLaunchAttributeProgrammaticEvent:
            case cudaLaunchAttributePriority:
            case cudaLaunchAttributeMemSyncDomainMap:
            case cudaLaunchAttributeMemSyncDomain:
            case cudaLaunchAttributePreferredClusterDimension:
            case cudaLaunchAttributeLaunchCompletionEvent:
            case cudaLaunchAttributePreferredSharedMemoryCarveout: break;
            default: return answer(cudaErrorInvalidValue);
        }
    }
    return cudaSuccess;
}

void launched(const cudaLaunchConfig_t* config) {
    for (unsigned int i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute& attribute = config->attrs[i];
        if (attribute.id == cudaLaunchAttributeProgrammaticEvent)
            cudaEventRecord(attribute.val.programmaticEvent.event, config->stream);
        if (attribute.id == cudaLaunchAttributeLaunchCompletionEvent)
            cudaEventRecord(attribute.val.launchCompletionEvent.event, config->stream);
    }
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

// The launch, with a cluster of its own or of its kernel.
static cudaError_t with_cluster(const void* kernel, const cudaLaunchConfig_t* config, Launch& launch) {
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    if (cudaError_t error = configured(config, launch)) return error;
    launch.kernel = kernel;
    bounds_of(kernel).limit(launch);
    launch.large_clusters = large_clusters(kernel);
    if (!launch.cluster.x) launch.cluster = launch.cluster_of_kernel;
    return cudaSuccess;
}

// A GPC of Hopper has up to 18 multiprocessors, and a cluster stays within one. Which GPCs have how many differs from
// chip to chip, so this counts as if all multiprocessors were alike.
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* kernel, const cudaLaunchConfig_t* config) {
    Launch launch({});
    if (!clusters) return answer(cudaErrorInvalidValue);
    if (cudaError_t error = with_cluster(kernel, config, launch)) return error;
    if (!launch.cluster.x || !why_refused(launch).empty()) return answer(cudaErrorInvalidClusterSize);
    const uint64_t threads = uint64_t(launch.block.x) * launch.block.y * launch.block.z;
    const Resources taken = resources(kernel).value_or(Resources());
    const size_t shared_bytes = taken.shared_bytes + launch.shared_bytes;
    const uint64_t resident = uint64_t(resident_blocks(threads, shared_bytes, taken.registers)) * profile.multiprocessors;
    *clusters = int(resident / (uint64_t(launch.cluster.x) * launch.cluster.y * launch.cluster.z));
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* kernel, const cudaLaunchConfig_t* config) {
    Launch launch({});
    if (!blocks) return answer(cudaErrorInvalidValue);
    if (cudaError_t error = with_cluster(kernel, config, launch)) return error;
    if (profile.capability < 90) return answer(cudaErrorNotSupported);
    launch.cluster = launch.cluster_of_kernel;
    if (!why_refused(launch).empty()) return answer(cudaErrorInvalidValue);
    const int most = int(launch.large_clusters ? Profile::most_cluster : Profile::cluster);
    *blocks = launch.most_cluster ? std::min(most, int(launch.most_cluster)) : most;
    return cudaSuccess;
}
