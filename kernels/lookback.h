// What the tiles of a scan announce, each in one word of 64 bits: its state above, a sum below. Both are stored at once, so
// no fence is needed between them. The words must be 0 at first.
enum State : unsigned int { NOTHING, TILE_SUM, SUM_SO_FAR };

using Word = unsigned long long;

__device__ void announce(volatile Word* word, State state, float sum) {
    *word = Word(state) << 32 | __float_as_uint(sum);
}

// The sum of all tiles before `tile`, for every lane of the warp that calls it. Lane 0 looks at the nearest tile. A
// tile that has announced its sum so far ends the search. One that has announced nothing is asked again: its block is
// running already, since tiles are taken in order, so it will announce something.
__device__ float look_back(volatile const Word* words, int tile) {
    int lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int nearest = tile - 1;; nearest -= 32) {
        int at = nearest - lane;
        Word seen = at >= 0 ? words[at] : Word(SUM_SO_FAR) << 32;  // in front of tile 0: a sum so far of 0
        unsigned int so_far;
        while (true) {  // until all tiles up to the nearest sum so far have announced something
            unsigned int nothing = __ballot_sync(0xffffffff, seen >> 32 == NOTHING);
            so_far = __ballot_sync(0xffffffff, seen >> 32 == SUM_SO_FAR);
            if ((nothing & (so_far ^ (so_far - 1))) == 0) break;  // these bits: the lowest of so_far and all below
            if (seen >> 32 == NOTHING) seen = words[at];
        }
        if (lane < __ffs(so_far) || so_far == 0) sum += __uint_as_float((unsigned int)seen);
        if (so_far == 0) continue;
        for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
        return sum;
    }
}

// The sum of what the tiles first, first + 1, ..., last - 1 have announced, in every lane of the warp that calls it.
__device__ float sum_between(volatile const Word* words, int first, int last) {
    constexpr int LOOKS = 5;  // of a lane, all in flight together: as many as 160 tiles
    float sum = 0.0f;
    for (int at = first + threadIdx.x % 32; at < last; at += 32 * LOOKS) {
        Word seen[LOOKS];
#pragma unroll
        for (int k = 0; k < LOOKS; ++k) seen[k] = at + 32 * k < last ? words[at + 32 * k] : Word(TILE_SUM) << 32;
#pragma unroll
        for (int k = 0; k < LOOKS; ++k) {
            while (seen[k] >> 32 == NOTHING) seen[k] = words[at + 32 * k];
            sum += __uint_as_float((unsigned int)seen[k]);
        }
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    return sum;
}
