// matmul: out (h, w) = m (h, k) @ n (k, w), float32, row-major: the naive kernel's loops in plain C, on one thread.
#include <stddef.h>

void matmul(const float* restrict m, const float* restrict n, float* restrict out, size_t h, size_t w, size_t k) {
    for (size_t r = 0; r < h; ++r) {
        for (size_t c = 0; c < w; ++c) {
            float o = 0.0f;
            for (size_t i = 0; i < k; ++i) o += m[r * k + i] * n[i * w + c];
            out[r * w + c] = o;
        }
    }
}
