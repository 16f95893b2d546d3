// One bit an element, eight in a byte: is the element positive? Eight threads read, change and write the same byte.
// Mended, a thread makes a whole byte.
__global__ void signs(const float* x, unsigned char* bits, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    if (8 * i >= n) return;  // guard
    unsigned char byte = 0;
    for (int k = 0; k < 8 && 8 * i + k < n; ++k) byte |= (x[8 * i + k] > 0.0f) << k;
    bits[i] = byte;
#else
    if (i < n && x[i] > 0.0f)
        bits[i / 8] |= 1 << i % 8;  // BUG: race
#endif
}
