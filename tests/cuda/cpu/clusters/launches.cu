// Launches of clusters, and what CUDA says of those that it refuses: each line is a result.
#include <cooperative_groups.h>
#include <cstdio>

namespace cg = cooperative_groups;

// Each block writes how many blocks its cluster has, and its neighbour's rank, read from its shared memory.
__device__ void look(int* out) {
    __shared__ int rank;
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0) rank = cluster.block_rank();
    cluster.sync();
    if (threadIdx.x == 0) out[blockIdx.x] = cluster.num_blocks() * 100 + *cluster.map_shared_rank(&rank, (cluster.block_rank() + 1) % cluster.num_blocks());
    cluster.sync();
}
__global__ void whichever(int* out, int add) {
    look(out);
    if (threadIdx.x == 0) out[blockIdx.x] += add;
}
__global__ void __cluster_dims__(2) pairs(int* out, int add) {
    look(out);
    if (threadIdx.x == 0) out[blockIdx.x] += add;
}
template <int n>
__global__ void __cluster_dims__(n, 1, 1) __launch_bounds__(64) of_template(int* out) { look(out); }
__global__ void __launch_bounds__(64, 1, 2) at_most_two(int* out, int add) { look(out); }
__global__ void mapped(int* out) {
    __shared__ int x;
    const uint2 both = __cluster_map_shared_multicast(&x, 3);
    out[threadIdx.x] = both.x == __cvta_generic_to_shared(&x) ? both.y : -2;
}
// All blocks of the grid, and those of each cluster.
__global__ void everyone(int* out) {
    auto cluster = cg::this_cluster();
    atomicAdd(out + blockIdx.x / cluster.num_blocks(), 1);
    cg::this_grid().sync();
    if (threadIdx.x == 0) out[8 + blockIdx.x] = atomicAdd(out + blockIdx.x / cluster.num_blocks(), 0);
    cluster.sync();
}

static int* out;

static void show(const char* name, cudaError_t error, int n = 8) {
    cudaError_t later = cudaDeviceSynchronize();
    printf("%s: %s", name, cudaGetErrorName(error ? error : later));
    if (!error && !later)
        for (int i = 0; i < n; i++) printf(" %d", out[i]);
    printf("\n");
    cudaGetLastError();
    for (int i = 0; i < 64; i++) out[i] = -1;
}

static cudaLaunchConfig_t config(cudaLaunchAttribute* attributes, dim3 grid, dim3 cluster) {
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = cluster.x;
    attributes[0].val.clusterDim.y = cluster.y;
    attributes[0].val.clusterDim.z = cluster.z;
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 0;
    attributes[2].id = cudaLaunchAttributePriority;
    attributes[2].val.priority = 0;
    cudaLaunchConfig_t made = {};
    made.gridDim = grid;
    made.blockDim = 32;
    made.attrs = attributes;
    made.numAttrs = 3;
    return made;
}

int main() {
    cudaMallocManaged(&out, 64 * sizeof(int));
    for (int i = 0; i < 64; i++) out[i] = -1;
    cudaLaunchAttribute a[4];
    cudaLaunchConfig_t four = config(a, 8, 4);
    show("attribute", cudaLaunchKernelEx(&four, whichever, out, 1000));
    int add = 2000;
    void* args[] = {&out, &add};
    show("with pointers", cudaLaunchKernelExC(&four, (const void*)whichever, args));
    pairs<<<8, 32>>>(out, 1000);
    show("of the kernel", cudaGetLastError());
    cudaLaunchConfig_t plain = four;
    plain.numAttrs = 0;
    show("of the kernel, by function", cudaLaunchKernelEx(&plain, pairs, out, 3000));
    show("the same size twice", [&] { cudaLaunchConfig_t two = config(a, 8, 2); return cudaLaunchKernelEx(&two, pairs, out, 0); }());
    of_template<4><<<8, 32>>>(out);
    show("of a template", cudaGetLastError());
    show("of a template, by function", cudaLaunchKernelEx(&plain, of_template<8>, out));
    show("by an older function", cudaLaunchKernel((void*)pairs, dim3(8), dim3(32), args, 0, 0));
    void (*pointer)(int*, int) = pairs;
    pointer<<<8, 32>>>(out, 1000);
    show("by a pointer", cudaGetLastError());
    show("by a pointer and function", cudaLaunchKernelEx(&plain, pointer, out, 3000));
    pointer<<<7, 32>>>(out, 0);
    show("by a pointer, no multiple", cudaGetLastError());
    mapped<<<1, 4>>>(out);
    show("for several blocks", cudaGetLastError(), 4);
    cudaLaunchConfig_t one = config(a, 8, 1);
    show("one block", cudaLaunchKernelEx(&one, whichever, out, 0));

    for (int i = 0; i < 64; i++) out[i] = 0;
    cudaLaunchConfig_t together = config(a, 8, 4);
    a[3].id = cudaLaunchAttributeCooperative;
    a[3].val.cooperative = 1;
    together.numAttrs = 4;
    show("with a barrier of the grid", cudaLaunchKernelEx(&together, everyone, out), 16);

    cudaLaunchConfig_t six = config(a, 6, 4), eight = config(a, 16, 8), sixteen = config(a, 32, 16), none = config(a, 8, dim3(2, 0, 1));
    show("no multiple", (config(a, 6, 4), cudaLaunchKernelEx(&six, whichever, out, 0)));
    show("another size than the kernel's", (config(a, 8, 4), cudaLaunchKernelEx(&four, pairs, out, 0)));
    show("more than its bounds", (config(a, 8, 4), cudaLaunchKernelEx(&four, at_most_two, out, 0)));
    show("eight", (config(a, 16, 8), cudaLaunchKernelEx(&eight, whichever, out, 0)), 16);
    show("sixteen", (config(a, 32, 16), cudaLaunchKernelEx(&sixteen, whichever, out, 0)));
    show("allowed", cudaFuncSetAttribute(whichever, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), 0);
    show("sixteen, allowed", cudaLaunchKernelEx(&sixteen, whichever, out, 0), 32);
    show("empty", (config(a, 8, dim3(2, 0, 1)), cudaLaunchKernelEx(&none, whichever, out, 0)));

    int clusters = -1, size = -1, supported = -1;
    show("occupancy", (config(a, 8, 4), cudaOccupancyMaxActiveClusters(&clusters, whichever, &four)), 0);
    show("largest", cudaOccupancyMaxPotentialClusterSize(&size, pairs, &plain), 0);
    cudaDeviceGetAttribute(&supported, cudaDevAttrClusterLaunch, 0);
    cudaFuncAttributes kept;
    cudaFuncGetAttributes(&kept, pairs);
    printf("%d %d %d %d\n", clusters > 0, size, supported, kept.requiredClusterWidth);
}
