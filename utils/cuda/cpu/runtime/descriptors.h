// Matrix descriptors of wgmma: where the elements of a tile are in shared memory ("PTX ISA", Asynchronous Warpgroup Level
// Matrix Shared Memory Layout).
//
// A tile is made of pieces of 16 bytes. Along k, a row of 32 bytes has two of them; otherwise a piece has eight 16-bit
// elements that are neighbours along m or n. Eight lines of `width` bytes make an atom, whose pieces are permuted: the
// three bits of the address above the lowest seven, less the base offset, change those above the lowest four (measured on
// an H200 for tiles along k, for every width and base offset). `width` is 16 without a swizzle.
#pragma once

#include <cstdint>

namespace cuda_on_cpu {

struct SharedTile {
    uint32_t start, leading, stride;  // in bytes, from where shared memory begins
    unsigned int width, base_offset;
};

constexpr SharedTile tile_of(uint64_t descriptor) {
    constexpr unsigned int widths[] = {16, 128, 64, 32};
    auto bytes = [&](int from) { return uint32_t(descriptor >> from & 0x3fff) << 4; };
    return {bytes(0), bytes(16), bytes(32), widths[descriptor >> 62], unsigned(descriptor >> 49 & 7)};
}

constexpr uint32_t swizzled(uint32_t address, unsigned int width, unsigned int base_offset) {
    return address ^ ((((address >> 7) - base_offset) << 4 & (width - 16)));
}

// Calls `f(address, line, k)` for each piece: of `lines` rows of A or columns of B. `k` counts pieces of a line where it is
// along k (`by_k`); otherwise elements, and the piece has eight lines from `line` on.
template <class F>
void each_piece(const SharedTile& tile, bool by_k, unsigned int lines, F f) {
    const unsigned int width = tile.width, across = width / 16;
    if (by_k) {
        for (unsigned int line = 0; line < lines; line++)
            for (unsigned int k = 0; k < 2; k++) {
                const uint32_t at = line % 8 * width + line / 8 * tile.stride + k * (width == 16 ? tile.leading : 16);
                f(swizzled(tile.start + at, width, tile.base_offset), line, k);
            }
        return;
    }
    for (unsigned int k = 0; k < 16; k++)
        for (unsigned int piece = 0; piece < lines / 8; piece++) {
            uint32_t at = k % 8 * width + piece % across * 16;
            if (width == 16) at += k / 8 * tile.leading + piece * tile.stride;
            else at += k / 8 * tile.stride + piece / across * tile.leading;
            f(swizzled(tile.start + at, width, tile.base_offset), piece * 8, k);
        }
}

}  // namespace cuda_on_cpu
