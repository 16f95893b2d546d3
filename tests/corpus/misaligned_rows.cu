// Four elements at once of each row. The first row begins at a multiple of 16 bytes; with 10 columns the next does not.
__global__ void negate(float* x, int h, int w) {
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= h) return;  // guard
#ifdef MENDED
    for (int k = 4 * c; k < min(4 * c + 4, w); ++k) x[r * w + k] = -x[r * w + k];
#else
    if (4 * c + 3 < w) {
        float4* v = reinterpret_cast<float4*>(x + r * w) + c;
        *v = make_float4(-v->x, -v->y, -v->z, -v->w);  // BUG: misaligned
    }
#endif
}
