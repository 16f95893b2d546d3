// Two arrays share the dynamic memory: a block's elements and their squares. The mended launch asks for room for both,
// the other for one.
__global__ void moments(const float* x, float* mean, float* variance) {
    extern __shared__ float values[];
    float* squares = values + blockDim.x;
    int t = threadIdx.x;
    float value = x[blockIdx.x * blockDim.x + t];
    values[t] = value;
    squares[t] = value * value;  // BUG: out_of_bounds
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        __syncthreads();  // else a partner's sum is not there yet
        if (t < s) {
            values[t] += values[t + s];
            squares[t] += squares[t + s];  // BUG: out_of_bounds
        }
    }
    if (t == 0) {
        float m = values[0] / blockDim.x;
        mean[blockIdx.x] = m;
        variance[blockIdx.x] = squares[0] / blockDim.x - m * m;  // BUG: out_of_bounds
    }
}
