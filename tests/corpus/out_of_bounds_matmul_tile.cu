// Tiled matmul, out (h, w) = m (h, k) @ n (k, w). Where TILE does not divide k, the last tiles reach past the end.
template <int TILE>
__global__ void matmul(const float* m, const float* n, float* out, int h, int w, int k) {
    __shared__ float m_tile[TILE][TILE], n_tile[TILE][TILE];
    int tr = threadIdx.y, tc = threadIdx.x;
    int r = blockIdx.y * TILE + tr, c = blockIdx.x * TILE + tc;
    float o = 0.0f;
    for (int start = 0; start < k; start += TILE) {
#ifdef MENDED
        m_tile[tr][tc] = r < h && start + tc < k ? m[r * k + start + tc] : 0.0f;
        n_tile[tr][tc] = c < w && start + tr < k ? n[(start + tr) * w + c] : 0.0f;
#else
        m_tile[tr][tc] = r < h ? m[r * k + start + tc] : 0.0f;  // BUG: out_of_bounds
        n_tile[tr][tc] = c < w ? n[(start + tr) * w + c] : 0.0f;  // BUG: out_of_bounds
#endif
        __syncthreads();  // else the tile is not complete
        for (int i = 0; i < TILE; ++i) o += m_tile[tr][i] * n_tile[i][tc];
        __syncthreads();  // else a fast thread overwrites what a slow one still reads
    }
    if (r < h && c < w) out[r * w + c] = o;
}
