"""Where the elements of a tile are in shared memory, written down from the pictures of the PTX ISA: a tile is made of
8 x 16 bytes, several of which are side by side, and a swizzle permutes them within each row."""

import numpy as np

MODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
WIDTHS = {"none": 16, "128B": 128, "64B": 64, "32B": 32}


def descriptor(start, leading, stride, swizzle) -> int:
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | MODES[swizzle] << 62


def chunk_in_row(chunk, row, swizzle):
    """Which of a row's chunks of 16 bytes holds what would be `chunk` without a swizzle."""
    if swizzle == "128B":
        return chunk ^ row
    if swizzle == "64B":
        return chunk ^ row // 2
    return chunk ^ row // 4 if swizzle == "32B" else chunk


def k_major(lines, swizzle, start=0, gap=0):
    """Lines of 32 bytes along k (uint8, lines x 32) as bytes of shared memory, and the descriptor's offsets. `start`:
    how many bytes along k the tile begins; `gap`: bytes that are left free behind each group of 8 lines."""
    width, count = WIDTHS[swizzle], len(lines)
    if swizzle == "none":
        leading, stride = 128, 256 + gap
        image = np.full(count // 8 * stride, 0xFF, np.uint8)
        for line in range(count):
            for chunk in range(2):
                at = line // 8 * stride + chunk * leading + line % 8 * 16
                image[at : at + 16] = lines[line, 16 * chunk : 16 * chunk + 16]
        return image, leading, stride
    stride = 8 * width + gap
    image = np.full(count // 8 * stride, 0xFF, np.uint8)
    for line in range(count):
        for chunk in range(2):
            here = chunk_in_row(start // 16 + chunk, line % 8, swizzle)
            at = line // 8 * stride + line % 8 * width + 16 * here
            image[at : at + 16] = lines[line, 16 * chunk : 16 * chunk + 16]
    return image, 16, stride


def mn_major(matrix, swizzle):
    """A matrix of 16 (k) x lines of 16-bit elements (uint16), neighbours along the lines."""
    width, count = WIDTHS[swizzle], matrix.shape[1]
    chunks, across = count // 8, width // 16
    blocks = -(-chunks // across)
    if swizzle == "none":
        leading, stride = 128 * chunks, 128
    else:
        leading, stride = 16 * width, 8 * width
    image = np.full(2 * blocks * across * 128, 0xFF, np.uint8)
    for k in range(16):
        for chunk in range(chunks):
            if swizzle == "none":
                at = k // 8 * leading + chunk * stride + k % 8 * 16
            else:
                here = chunk_in_row(chunk % across, k % 8, swizzle)
                at = chunk // across * leading + k // 8 * stride + k % 8 * width + 16 * here
            image[at : at + 16] = matrix[k, 8 * chunk : 8 * chunk + 8].view(np.uint8)
    return image, leading, stride
