// What the kernels of the ladder share: filling tiles in shared memory, 4 elements at once, and products in registers.
// All matrices are float32 and row-major; a block of THREADS threads is flat.

// Fills a tile from x (rows, columns), starting at x[r0][c0]. Elements outside of x are 0, which adds nothing to a sum.
template <int THREADS, int HEIGHT, int WIDTH>
__device__ void load_tile(float (&tile)[HEIGHT][WIDTH], const float* x, size_t r0, size_t c0, size_t rows,
                          size_t columns) {
    static_assert(HEIGHT * WIDTH % THREADS == 0, "every thread loads the same number");
    for (int first = 0; first < HEIGHT * WIDTH; first += THREADS) {
        int i = first + threadIdx.x;
        size_t r = r0 + i / WIDTH, c = c0 + i % WIDTH;
        tile[i / WIDTH][i % WIDTH] = r < rows && c < columns ? x[r * columns + c] : 0.0f;  // guard
    }
}

// Copies 16 bytes at once. Both places must begin at a multiple of 16 bytes.
__device__ inline void copy4(float* to, const float* from) { *(float4*)to = *(const float4*)from; }

// x[r][c] and the three elements to its right, with one load where x allows it. Elements outside of x are 0.
__device__ inline float4 load4(const float* x, size_t r, size_t c, size_t rows, size_t columns) {
    if (r >= rows || c >= columns) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);  // guard
    const float* from = x + r * columns + c;
    if (columns % 4 == 0 && size_t(x) % 16 == 0) return *(const float4*)from;
    size_t left = columns - c;
    return make_float4(from[0], left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f, left > 3 ? from[3] : 0.0f);
}

// Fills both tiles, 4 elements with each load. m_tile is stored transposed: m_tile[i][r] is the element in row r and
// column i. Its rows may be longer than the BH elements that are filled.
template <int THREADS, int BH, int BK, int LENGTH, int BW>
__device__ void load_tiles(float (&m_tile)[BK][LENGTH], float (&n_tile)[BK][BW], const float* m, const float* n,
                           size_t r0, size_t c0, size_t start, size_t h, size_t w, size_t k) {
    static_assert(BH * BK % (4 * THREADS) == 0 && BK * BW % (4 * THREADS) == 0, "every thread loads the same number");
    for (int first = 0; first < BH * BK; first += 4 * THREADS) {
        int i = first + 4 * threadIdx.x, r = i / BK, c = i % BK;
        float4 x = load4(m, r0 + r, start + c, h, k);
        m_tile[c][r] = x.x, m_tile[c + 1][r] = x.y, m_tile[c + 2][r] = x.z, m_tile[c + 3][r] = x.w;
    }
    for (int first = 0; first < BK * BW; first += 4 * THREADS) {
        int i = first + 4 * threadIdx.x, r = i / BW, c = i % BW;
        *(float4*)&n_tile[r][c] = load4(n, start + r, c0 + c, k, w);
    }
}

// sums += a times b: a column of TH elements times a row of TW.
template <int TH, int TW>
__device__ void add_products(float (&sums)[TH][TW], const float (&a)[TH], const float (&b)[TW]) {
#pragma unroll
    for (int t = 0; t < TH; ++t)
#pragma unroll
        for (int u = 0; u < TW; ++u) sums[t][u] += a[t] * b[u];
}

// Writes 4 elements of a row of out, from out[r][c] on: with one store where the rows allow it, and nothing outside of
// out, which begins at a multiple of 16 bytes.
__device__ inline void store4(float* out, size_t r, size_t c, size_t rows, size_t columns, const float* from) {
    if (r >= rows || c >= columns) return;  // guard
    float* to = out + r * columns + c;
    if (columns % 4 == 0)
        copy4(to, from);
    else
        for (int u = 0; u < 4 && c + u < columns; ++u) to[u] = from[u];
}
