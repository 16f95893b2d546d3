// matmul_tiled: out (h, w) = m (h, k) @ n (k, w), float32, row-major, any sizes, in blocks of 16 x 16 threads.
// One block computes one tile of 16 x 16 elements of out, one thread one element of it.
__global__ void matmul_tiled(const float* __restrict__ m, const float* __restrict__ n, float* __restrict__ out, int h,
                             int w, int k) {
    __shared__ float ms[16][16], ns[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int r = blockIdx.y * 16 + y, c = blockIdx.x * 16 + x;

    float o = 0.0f;
    for (int first = 0; first < k; first += 16) {
        ms[y][x] = r < h && first + x < k ? m[size_t(r) * k + first + x] : 0.0f;  // guard
        ns[y][x] = first + y < k && c < w ? n[size_t(first + y) * w + c] : 0.0f;  // guard
        __syncthreads();  // else a thread reads elements that their threads have not loaded yet
        for (int i = 0; i < 16; ++i) o += ms[y][i] * ns[i][x];
        __syncthreads();  // else a thread loads the next tiles over elements that others still read
    }
    if (r < h && c < w) out[size_t(r) * w + c] = o;  // guard
}
