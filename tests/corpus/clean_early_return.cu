// Threads leave at three places. There is no barrier behind them, so nobody waits in vain.
__global__ void square_roots(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    if (x[i] <= 0.0f) {
        out[i] = 0.0f;
        return;
    }
    out[i] = sqrtf(x[i]);
}
