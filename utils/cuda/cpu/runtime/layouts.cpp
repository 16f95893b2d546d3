// Which lane holds which element, for Python (cpu/fragments.py): from the tables that the products use.
#include "cuda_on_cpu/ptx/mma.h"
#include "cuda_on_cpu/ptx/wmma.h"
#include "held.h"
#include "runtime.h"

using namespace cuda_on_cpu;

struct Asked {  // cpu/fragments.py makes it
    uint32_t m, n, k, d, a, b, c, quads, a_columns, b_rows;

    ptx::Product product() const {
        return {uint8_t(m), uint8_t(n), uint16_t(k), ptx::Type(d), ptx::Type(a), ptx::Type(b), ptx::Type(c), false,
                false, quads != 0, a_columns != 0, b_rows != 0};
    }
};

// Whether there is such an instruction: of mma.sync, or of wmma.
extern "C" bool cuda_on_cpu_is_product(const Asked* asked, bool of_wmma) {
    const ptx::Product p = asked->product();
    if (!of_wmma)
        return p.quads ? p.m == 8 && p.n == 8 && p.k == 4 && p.a == ptx::Type::f16 && p.b == p.a
                       : ptx::has_shape(p.a, p.d, p.m, p.n, p.k) && ptx::are_mixed(p.a, p.b) &&
                             (p.c == p.d || (p.a == ptx::Type::f16 && is_float(p.c)));
    return is_product_of_tiles(p);
}

// Writes {lane, element, row, column} for each element that a lane holds of operand 'a', 'b', 'c' or 'd', in its own
// coordinates: of B {k, n}. Of four products in one instruction, the first. Returns how many; `out` has room for `most`.
extern "C" size_t cuda_on_cpu_held(const Asked* asked, char operand, uint32_t (*out)[4], size_t most) {
    const ptx::Product p = asked->product();
    size_t count = 0;
    auto note = [&](ptx::Cell at, unsigned int lane, unsigned int e) {
        const ptx::Cell own = operand == 'b' ? ptx::transposed(at) : at;
        if (count < most) out[count][0] = lane, out[count][1] = e, out[count][2] = own.row, out[count][3] = own.column;
        count++;
    };
    if (operand == 'a') each_of_a(p, 0, note);
    if (operand == 'b') each_of_b(p, 0, note);
    if (operand == 'c') each_of_c(p, p.c, 0, note);
    if (operand == 'd') each_of_c(p, p.d, 0, note);
    return count;
}

extern "C" uint32_t cuda_on_cpu_bits_of(uint32_t type) { return bits_of(ptx::Type(type)); }
