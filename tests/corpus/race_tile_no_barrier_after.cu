// Tiled matmul, out (h, w) = m (h, k) @ n (k, w), without the barrier after the tile: a fast thread loads the next tile
// over the one that a slow thread still reads.
template <int TILE>
__global__ void matmul(const float* m, const float* n, float* out, int h, int w, int k) {
    __shared__ float m_tile[TILE][TILE], n_tile[TILE][TILE];
    int tr = threadIdx.y, tc = threadIdx.x;
    int r = blockIdx.y * TILE + tr, c = blockIdx.x * TILE + tc;
    float o = 0.0f;
    for (int start = 0; start < k; start += TILE) {
        m_tile[tr][tc] = r < h && start + tc < k ? m[r * k + start + tc] : 0.0f;  // BUG: race
        n_tile[tr][tc] = c < w && start + tr < k ? n[(start + tr) * w + c] : 0.0f;  // BUG: race
        __syncthreads();  // else the tile is not complete
        for (int i = 0; i < TILE; ++i)
            o += m_tile[tr][i] * n_tile[i][tc];  // BUG: the other
#ifdef MENDED
        __syncthreads();  // else a fast thread overwrites what a slow one still reads
#endif
    }
    if (r < h && c < w) out[r * w + c] = o;
}
