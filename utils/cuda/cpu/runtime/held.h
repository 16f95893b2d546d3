// Which lane holds which element of a product's matrices (include/cuda_on_cpu/ptx/fragments.h has the tables), for
// those that need all of them: products.cpp and, for Python, layouts.cpp.
#pragma once

#include "cuda_on_cpu/ptx/fragments.h"

namespace cuda_on_cpu {

// Calls `f(place, lane, e)` for each element that the lanes hold: of A as {m, k}, of B as {n, k}, of C and D as {m, n}.
// `quad`: of four products that are one instruction, that of these lanes.
template <class F>
void each_of_a(const ptx::Product& p, unsigned int quad, F f) {
    const unsigned int bits = bits_of(p.a), count = p.m * p.k / (p.quads ? 8 : 32);
    for (unsigned int lane = 0; lane < 32; lane++)
        for (unsigned int e = 0; e < count; e++) {
            if (!p.quads) f(ptx::place_in_a(p.m, p.k, bits, lane, e), lane, e);
            if (!p.quads || lane / 4 % 4 != quad) continue;
            const ptx::Cell place = ptx::place_in_quad_line(p.a_columns, lane, e);
            f(p.a_columns ? ptx::transposed(place) : place, lane, e);
        }
}
template <class F>
void each_of_b(const ptx::Product& p, unsigned int quad, F f) {
    const unsigned int bits = bits_of(p.b), count = p.n * p.k / (p.quads ? 8 : 32);
    for (unsigned int lane = 0; lane < 32; lane++)
        for (unsigned int e = 0; e < count; e++) {
            if (!p.quads) f(ptx::transposed(ptx::place_in_b(p.n, p.k, bits, lane, e)), lane, e);
            if (!p.quads || lane / 4 % 4 != quad) continue;
            const ptx::Cell place = ptx::place_in_quad_line(p.b_rows, lane, e);
            f(p.b_rows ? ptx::transposed(place) : place, lane, e);
        }
}
template <class F>
void each_of_c(const ptx::Product& p, ptx::Type type, unsigned int quad, F f) {
    const unsigned int count = p.m * p.n / (p.quads ? 8 : 32);
    for (unsigned int lane = 0; lane < 32; lane++)
        for (unsigned int e = 0; e < count; e++) {
            if (!p.quads) f(ptx::place_in_c(p.m, p.n, lane, e), lane, e);
            if (p.quads && lane / 4 % 4 == quad) f(ptx::place_in_quad_c(type, lane, e), lane, e);
        }
}

}  // namespace cuda_on_cpu
