// What kernels with copies in flight include.
#include <cuda_pipeline.h>

#include "tiles.h"

// Begins to copy 4 bytes to shared memory. Where `inside` is false nothing is read, and 4 bytes become 0.
__device__ inline void begin_copy(float* to, const float* from, bool inside) {
    __pipeline_memcpy_async(to, from, 4, inside ? 0 : 4);  // guard
}
