// One thread of each warp changes two plain words together, under a lock that it takes and gives back by atomics.
__global__ void largest(const float* x, float* best, int* place, int* lock, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = i < n ? x[i] : -1e30f;
    for (int s = 16; s > 0; s /= 2) {
        float other = __shfl_down_sync(0xffffffff, value, s);
        int other_i = __shfl_down_sync(0xffffffff, i, s);
        if (other > value) value = other, i = other_i;
    }
    if (threadIdx.x % 32 != 0) return;  // no barrier behind
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();  // else the words may be read before the lock is taken
    if (value > *(volatile float*)best) {
        *(volatile float*)best = value;
        *(volatile int*)place = i;
    }
    __threadfence();  // else the lock may be seen open before the words are written
    atomicExch(lock, 0);
}
