// Writes the powers of two from the highest down. An unsigned counter is never below zero: after 0 comes 4294967295.
__global__ void powers(unsigned* out, unsigned n) {
    if (threadIdx.x != 0) return;
#ifdef MENDED
    for (unsigned k = n; k-- > 0;)
#else
    for (unsigned k = n - 1; k >= 0; --k)  // BUG: runaway
#endif
        out[k % n] = 1u << k % 32;
}
