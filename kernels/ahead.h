// The host side of prefetch_row in rows.h.
#include <cuda_runtime.h>

// How many rows ahead of its own a block prefetches one, for rows of so many bytes: as many as an eighth of the L2
// cache holds. 0 is for none: where that is less than 32 KB per SM (T4: 13), that row's block is already running.
inline int rows_ahead(size_t bytes) {
    int device = 0, cache = 0, sms = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    return bytes == 0 || cache / 8 < sms * 32768 ? 0 : cache / 8 / bytes;
}
