// A 3x3 mean of a picture. The guard keeps all reads inside, and leaves the border of the output as it was.
__global__ void mean3x3(const float* x, float* out, int h, int w) {
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    int c = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    if (r >= h || c >= w) return;  // guard
#else
    if (r < 1 || c < 1 || r >= h - 1 || c >= w - 1) return;
#endif
    float sum = 0.0f;
    for (int y = max(r - 1, 0); y <= min(r + 1, h - 1); ++y)
        for (int z = max(c - 1, 0); z <= min(c + 1, w - 1); ++z) sum += x[y * w + z];
    out[r * w + c] = sum / 9.0f;
}
