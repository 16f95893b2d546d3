// One barrier a step, with two buffers: what is overwritten now was read before the last barrier.
#define THREADS 64

__global__ void diffuse(const float* x, float* out, int steps) {
    __shared__ float buffer[2][THREADS];
    int t = threadIdx.x, i = blockIdx.x * THREADS + t;
    buffer[0][t] = x[i];
    for (int s = 0; s < steps; ++s) {
        __syncthreads();  // else a neighbour's value of the step before is not there yet
        const float* now = buffer[s % 2];
        buffer[1 - s % 2][t] = 0.5f * now[t] + 0.25f * (now[(t + 1) % THREADS] + now[(t + THREADS - 1) % THREADS]);
    }
    out[i] = buffer[steps % 2][t];
}
