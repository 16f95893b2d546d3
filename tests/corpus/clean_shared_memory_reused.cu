// One piece of dynamic memory, first for ints, then for the doubles that come out of them. A barrier is between.
__global__ void ranks(const int* x, double* out) {
    extern __shared__ __align__(16) unsigned char memory[];
    int n = blockDim.x, t = threadIdx.x, smaller = 0;
    int* keys = reinterpret_cast<int*>(memory);
    keys[t] = x[t];
    __syncthreads();  // else keys are missing
    for (int k = 0; k < n; ++k) smaller += keys[k] < keys[t] || (keys[k] == keys[t] && k < t);
    __syncthreads();  // else a key is overwritten while others read it
    double* sorted = reinterpret_cast<double*>(memory);
    sorted[smaller] = (double)t / n;
    __syncthreads();  // else results are missing
    out[t] = sorted[t];
}
