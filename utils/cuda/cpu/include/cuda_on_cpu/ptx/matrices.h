// ldmatrix, stmatrix and movmatrix: 8 x 8 matrices of 16-bit elements between shared memory and a warp's registers.
// Lane 8 * i + r gives the address of row r of matrix i; afterwards lane l holds elements 2 * (l % 4) and the next of
// row l / 4 of each matrix, or of column l / 4 if they are transposed ("PTX ISA", ldmatrix).
#pragma once

#include "../launch.h"
#include "fragments.h"

namespace cuda_on_cpu {
// In runtime/matrices.cpp. Addresses are counted from where the block's shared memory begins, as __cvta_generic_to_shared
// gives them.
void load_matrices(uint32_t* d, unsigned int count, bool transpose, uint32_t shared_address);
void store_matrices(uint32_t shared_address, const uint32_t* s, unsigned int count, bool transpose);
uint32_t transpose_matrix(uint32_t s);
}  // namespace cuda_on_cpu

namespace cuda_on_cpu::ptx {

template <unsigned int count, bool trans>
__forceinline__ void ldmatrix(uint32_t (&d)[count], uint32_t shared_address) {
    static_assert(count == 1 || count == 2 || count == 4, "ldmatrix loads 1, 2 or 4 matrices");
    ::cuda_on_cpu::load_matrices(d, count, trans, shared_address);
}

template <unsigned int count, bool trans>
__forceinline__ void stmatrix(uint32_t shared_address, const uint32_t (&s)[count]) {
    static_assert(count == 1 || count == 2 || count == 4, "stmatrix stores 1, 2 or 4 matrices");
    ::cuda_on_cpu::store_matrices(shared_address, s, count, trans);
}

__forceinline__ uint32_t movmatrix_trans(uint32_t s) { return ::cuda_on_cpu::transpose_matrix(s); }

}  // namespace cuda_on_cpu::ptx
