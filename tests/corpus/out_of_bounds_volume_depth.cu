// A volume of d x h x w values, one thread each, 3-D blocks. Only rows and columns are guarded.
__global__ void scale_volume(float* x, int d, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
#ifdef MENDED
    if (c < w && r < h && z < d)  // guard
#else
    if (c < w && r < h)
#endif
        x[(z * h + r) * w + c] *= 2.0f;  // BUG: out_of_bounds
}
