// Makes tensor maps, and refuses what the driver refuses (cuda.h of CUDA 13.2, cuTensorMapEncodeTiled). What needs a
// newer GPU than Hopper is refused too, as the driver does there: packed types of 4 and 6 bits, and swizzles of other
// chunks than 16 bytes.
#include <cstring>

#include "cuda.h"
#include "../runtime/boxes.h"

using namespace cuda_on_cpu;

CUresult cuGetErrorString(CUresult error, const char** text) {
    switch (error) {
#define CUDA_ON_CPU_DRIVER_RESULT(name, number, words) \
    case name: return *text = words, CUDA_SUCCESS;
        CUDA_ON_CPU_DRIVER_RESULTS(CUDA_ON_CPU_DRIVER_RESULT)
#undef CUDA_ON_CPU_DRIVER_RESULT
    }
    *text = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
    switch (error) {
#define CUDA_ON_CPU_DRIVER_RESULT(name, number, words) \
    case name: return *text = #name, CUDA_SUCCESS;
        CUDA_ON_CPU_DRIVER_RESULTS(CUDA_ON_CPU_DRIVER_RESULT)
#undef CUDA_ON_CPU_DRIVER_RESULT
    }
    *text = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
}

static bool is_float(int type) { return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16; }

CUresult cuInit(unsigned int flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }

CUresult cuTensorMapEncodeTiled(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    const bool plain = interleave == CU_TENSOR_MAP_INTERLEAVE_NONE;
    const unsigned int unit = interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
    auto within = [](uint64_t x, uint64_t least, uint64_t most) { return x >= least && x <= most; };
    if (!to || !sizes || !box || !steps || uintptr_t(to) % 64 || uintptr_t(address) % unit ||
        !within(type, 0, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ) || !within(rank, plain ? 1 : 3, most_dimensions) ||
        (rank > 1 && !strides) || !within(interleave, 0, CU_TENSOR_MAP_INTERLEAVE_32B) ||
        !within(swizzle, 0, CU_TENSOR_MAP_SWIZZLE_128B) || !within(promotion, 0, CU_TENSOR_MAP_L2_PROMOTION_L2_256B) ||
        !within(fill, 0, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA) ||
        (interleave == CU_TENSOR_MAP_INTERLEAVE_32B && swizzle != CU_TENSOR_MAP_SWIZZLE_32B) ||
        (fill && !is_float(type)))
        return CUDA_ERROR_INVALID_VALUE;
    TensorMap map{};
    map.address = uint64_t(address);
    map.rank = rank;
    map.type = type;
    map.interleave = interleave;
    map.swizzle = swizzle;
    map.promotion = promotion;
    map.fill = fill;
    for (cuuint32_t d = 0; d < rank; d++) {
        if (!within(sizes[d], 1, uint64_t(1) << 32) || !within(box[d], 1, 256) || !within(steps[d], 1, 8))
            return CUDA_ERROR_INVALID_VALUE;
        map.last[d] = uint32_t(sizes[d] - 1);
        map.box[d] = box[d];
        map.steps[d] = steps[d];
        if (d == 0) continue;
        if (strides[d - 1] % unit || strides[d - 1] >= uint64_t(1) << 40) return CUDA_ERROR_INVALID_VALUE;
        map.strides[d - 1] = strides[d - 1];
    }
    if (plain && (map.row_bytes() % 16 || (swizzle && map.row_bytes() > map.span()))) return CUDA_ERROR_INVALID_VALUE;
    map.seal = map.sum();
    memset(to, 0, sizeof *to);
    memcpy(to, &map, sizeof map);
    return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* tensor_map, void* address) {
    TensorMap map;
    if (!tensor_map || uintptr_t(tensor_map) % 64) return CUDA_ERROR_INVALID_VALUE;
    memcpy(&map, tensor_map, sizeof map);
    const unsigned int unit = map.interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
    if (!map.is_whole() || uintptr_t(address) % unit) return CUDA_ERROR_INVALID_VALUE;
    map.address = uint64_t(address);
    map.seal = map.sum();
    memcpy(tensor_map, &map, sizeof map);
    return CUDA_SUCCESS;
}

// ---- by name --------------------------------------------------------------------------------------------------------

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int version,
                                             unsigned long long flags, cudaDriverEntryPointQueryResult* found) {
    static const struct {
        const char* name;
        unsigned int since;
        void* function;
    } known[] = {{"cuGetErrorString", 6000, reinterpret_cast<void*>(cuGetErrorString)},
                 {"cuGetErrorName", 6000, reinterpret_cast<void*>(cuGetErrorName)},
                 {"cuTensorMapEncodeTiled", 12000, reinterpret_cast<void*>(cuTensorMapEncodeTiled)},
                 {"cuTensorMapReplaceAddress", 12000, reinterpret_cast<void*>(cuTensorMapReplaceAddress)}};
    if (!symbol || !*symbol || !function || flags > cudaEnablePerThreadDefaultStream)
        return answer(cudaErrorInvalidValue);
    *function = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    for (const auto& each : known) {
        if (strcmp(each.name, symbol)) continue;
        result = version < each.since ? cudaDriverEntryPointVersionNotSufficent : cudaDriverEntryPointSuccess;
        if (version >= each.since) *function = each.function;
    }
    if (found) *found = result;
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* found) {
    return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, found);
}
