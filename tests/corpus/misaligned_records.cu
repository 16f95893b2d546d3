// Records of five bytes, as they come from a file: a tag and a 32-bit number, which no int pointer can read there.
__global__ void numbers(const unsigned char* records, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    const unsigned char* at = records + 5 * i + 1;
#ifdef MENDED
    out[i] = at[0] | at[1] << 8 | at[2] << 16 | at[3] << 24;
#else
    out[i] = *reinterpret_cast<const int*>(at);  // BUG: misaligned
#endif
}
