// Products of a warp: what the lanes hold is put together to two matrices and an accumulator, multiplied, and handed
// out again (include/cuda_on_cpu/ptx/fragments.h says which lane holds what).
#include <algorithm>
#include <cstring>

#include "accumulate.h"
#include "held.h"
#include "profile.h"
#include "runtime.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

using ptx::Cell;
using ptx::Product;
using ptx::Type;

struct Brought {  // by a lane
    const Product* product;
    void* d;
    const void *a, *b, *c;
    const char* name;  // of the instruction
    const void* code;
};

constexpr unsigned int most_lines = 32;  // of wmma's m32n8k16 and m8n32k16

// Element e of a lane's registers.
static uint64_t element(const void* registers, unsigned int bits, unsigned int e) {
    if (bits == 64) return static_cast<const uint64_t*>(registers)[e];
    const unsigned int at = e * bits;
    uint32_t word;  // a fragment of wmma is an array of its own type
    memcpy(&word, static_cast<const char*>(registers) + at / 32 * 4, 4);
    return bits == 32 ? word : word >> at % 32 & ((1u << bits) - 1);
}
static void set_element(void* registers, unsigned int bits, unsigned int e, uint64_t value) {
    memcpy(static_cast<char*>(registers) + e * bits / 8, &value, bits / 8);
}

// Gives the bits of all elements to `set_a`, `set_b` and `set_c`. What a lane would hold that has ended is poison.
template <class A, class B, class C>
static void read(void* const (&brought)[32], const Product& p, unsigned int quad, A set_a, B set_b, C set_c) {
    auto bits_at = [&](auto member, Type type, unsigned int lane, unsigned int e) {
        const Brought* mine = static_cast<const Brought*>(brought[lane]);
        return mine ? element(mine->*member, bits_of(type), e) : poison & (~uint64_t(0) >> (64 - bits_of(type)));
    };
    each_of_a(p, quad, [&](Cell at, unsigned int lane, unsigned int e) { set_a(at, bits_at(&Brought::a, p.a, lane, e)); });
    each_of_b(p, quad, [&](Cell at, unsigned int lane, unsigned int e) { set_b(at, bits_at(&Brought::b, p.b, lane, e)); });
    each_of_c(p, p.c, quad,
              [&](Cell at, unsigned int lane, unsigned int e) { set_c(at, bits_at(&Brought::c, p.c, lane, e)); });
}

// Hands the elements of D out: `bits` gives them.
template <class Bits>
static void write(void* const (&brought)[32], const Product& p, unsigned int quad, Bits bits) {
    each_of_c(p, p.d, quad, [&](Cell at, unsigned int lane, unsigned int e) {
        if (auto* mine = static_cast<const Brought*>(brought[lane])) set_element(mine->d, bits_of(p.d), e, bits(at));
    });
}

// ---- floating point

struct Floats {  // as Sums::add wants them
    static constexpr unsigned int most_k = 32;
    double a[most_lines][most_k], b[most_lines][most_k];
    int16_t ea[most_lines][most_k], eb[most_lines][most_k];
    using C = uint32_t[most_lines][most_lines];
    C c;
};

template <int count>
static void add_blocks(const Product& p, const Sums& sums, Floats& f) {
    for (unsigned int i = 0; i < p.m; i++)
        for (unsigned int j = 0; j < p.n; j++) {
            uint32_t& bits = f.c[i][j];
            Term c = term_of(p.c, bits);
            for (unsigned int k = 0; k < p.k; k += count) {
                bits = sums.add<count>(f.a[i] + k, f.ea[i] + k, f.b[j] + k, f.eb[j] + k, c);
                c = term_of(p.d, bits);
            }
        }
}

// An element of mma.m8n8k4 of f16 where nvcc makes multiplications and additions of float of it.
static uint32_t sum_of_quad(const Product& p, const Floats& f, unsigned int i, unsigned int j) {
    const float c = term_of(p.c, f.c[i][j]).value;
    auto fma = [&](unsigned int k, float sum) { return std::fma(float(f.a[i][k]), float(f.b[j][k]), sum); };
    if (p.d == Type::f32) return bit_cast<uint32_t>(c + fma(3, fma(2, fma(1, fma(0, 0)))));
    return Format<5, 10>::nearest(c + fma(1, fma(0, 0)) + fma(3, fma(2, 0)));
}

// An addition outside of the tensor cores, as FADD and HADD2 do it.
static uint32_t sum_of_two(Type type, uint32_t x, uint32_t y) {
    const float sum = float(term_of(type, x).value) + float(term_of(type, y).value);
    if (type == Type::f16) return sum != sum ? 0x7fff : Format<5, 10>::nearest(sum);
    return sum != sum ? 0x7fffffff : bit_cast<uint32_t>(sum);
}

static void multiply_floats(void* const (&brought)[32], const Product& p, unsigned int quad) {
    const Accumulation* gpu = accumulations;
    for (const Accumulation& a : accumulations)
        if (a.capability <= profile.capability) gpu = &a;
    const bool as_f16 = bits_of(p.a) == 8;
    auto place = [&](unsigned int k) {  // where a product comes in the order of additions
        return !as_f16 ? k : (k % 4 < 2 ? 0 : p.k / 2) + k / 4 * 2 + k % 2;
    };
    Floats f;
    read(
        brought, p, quad,
        [&](Cell at, uint64_t bits) {
            Term t = term_of(p.a, bits);
            f.a[at.row][place(at.column)] = t.value, f.ea[at.row][place(at.column)] = t.exponent;
        },
        [&](Cell at, uint64_t bits) {
            Term t = term_of(p.b, bits);
            f.b[at.row][place(at.column)] = t.value, f.eb[at.row][place(at.column)] = t.exponent;
        },
        [&](Cell at, uint64_t bits) { f.c[at.row][at.column] = uint32_t(bits); });

    const Sums sums{gpu->fraction, p.d == Type::f16};
    unsigned int count = gpu->bytes * 8 / (as_f16 ? 16 : bits_of(p.a));
    if (p.step) count = std::min<unsigned int>(count, p.step);
    count = std::min<unsigned int>(count, as_f16 ? p.k / 2 : p.k);
    Floats::C c;
    if (as_f16) memcpy(c, f.c, sizeof c), memset(f.c, 0, sizeof f.c);
    const bool by_fma = p.quads && profile.capability >= quads_by_fma;
    for (unsigned int i = 0; by_fma && i < 8; i++)
        for (unsigned int j = 0; j < 8; j++) f.c[i][j] = sum_of_quad(p, f, i, j);
    if (count == 16) add_blocks<16>(p, sums, f);
    if (count == 8) add_blocks<8>(p, sums, f);
    if (count == 4 && !by_fma) add_blocks<4>(p, sums, f);
    for (unsigned int i = 0; as_f16 && i < p.m; i++)
        for (unsigned int j = 0; j < p.n; j++) f.c[i][j] = sum_of_two(p.d, c[i][j], f.c[i][j]);
    write(brought, p, quad, [&](Cell at) { return f.c[at.row][at.column]; });
}

// ---- the others: `next(a, b, c)` adds one product

template <class Value, class Sum, unsigned int most_k, class ToValue, class ToSum, class Next, class ToBits>
static void multiply_plainly(void* const (&brought)[32], const Product& p, ToValue value, ToSum sum, Next next,
                             ToBits bits) {
    Value a[most_lines][most_k], b[most_lines][most_k];
    Sum c[most_lines][most_lines];
    read(
        brought, p, 0, [&](Cell at, uint64_t bits) { a[at.row][at.column] = value(p.a, bits); },
        [&](Cell at, uint64_t bits) { b[at.row][at.column] = value(p.b, bits); },
        [&](Cell at, uint64_t bits) { c[at.row][at.column] = sum(bits); });
    for (unsigned int i = 0; i < p.m; i++)
        for (unsigned int j = 0; j < p.n; j++)
            for (unsigned int k = 0; k < p.k; k++) c[i][j] = next(a[i][k], b[j][k], c[i][j]);
    write(brought, p, 0, [&](Cell at) { return bits(c[at.row][at.column]); });
}

// A chain of multiplications with addition, each rounded once, as IEEE 754 has it.
static void multiply_doubles(void* const (&brought)[32], const Product& p) {
    multiply_plainly<double, double, 16>(
        brought, p, [](Type, uint64_t bits) { return bit_cast<double>(bits); },
        [](uint64_t bits) { return bit_cast<double>(bits); },
        [](double a, double b, double c) { return std::fma(a, b, c); },
        [](double x) { return bit_cast<uint64_t>(x); });
}

// Exact sums; only what is handed out wraps around or saturates.
static void multiply_integers(void* const (&brought)[32], const Product& p) {
    auto value = [](Type type, uint64_t bits) -> int32_t {
        const bool is_signed = type == Type::s8 || type == Type::s4;
        const unsigned int unused = 32 - bits_of(type);
        return is_signed ? int32_t(uint32_t(bits) << unused) >> unused : int32_t(bits);
    };
    multiply_plainly<int32_t, int64_t, 64>(
        brought, p, value, [](uint64_t bits) { return int64_t(int32_t(bits)); },
        [](int32_t a, int32_t b, int64_t c) { return c + a * b; },
        [&](int64_t x) { return uint32_t(p.saturate ? std::clamp<int64_t>(x, INT32_MIN, INT32_MAX) : x); });
}

static void multiply_bits(void* const (&brought)[32], const Product& p) {
    multiply_plainly<uint8_t, int64_t, 256>(
        brought, p, [](Type, uint64_t bits) { return uint8_t(bits); },
        [](uint64_t bits) { return int64_t(int32_t(bits)); },
        [&](uint8_t a, uint8_t b, int64_t c) { return c + (p.bit_and ? a & b : a ^ b); },
        [](int64_t x) { return uint32_t(x); });
}

// By the lane that arrives last.
static void multiply_together(void* const (&brought)[32], unsigned int came) {
    const Brought& one = *static_cast<const Brought*>(brought[__builtin_ctz(came)]);
    const Product& p = *one.product;
    if (Trace* trace = block().worker->trace) trace_product(*trace, block(), p, one.name, one.code);
    if (p.a == Type::f64) return multiply_doubles(brought, p);
    if (p.a == Type::b1) return multiply_bits(brought, p);
    if (!is_float(p.a)) return multiply_integers(brought, p);
    for (unsigned int quad = 0; quad < (p.quads ? 4 : 1); quad++) multiply_floats(brought, p, quad);
}

// A value of a variable that was never set shows in floating point, and in a sum: whole numbers may well have it.
static void look_at(const Product& p, const void* a, const void* b, const void* c, const char* name, const void* code) {
    Block& here = block();
    Trace* trace = here.worker->trace;
    auto look = [&](const void* operand, Type type, unsigned int elements) {
        if (is_float(type) || type == Type::s32)
            trace_operand(*trace, here, operand, elements / 32 * bits_of(type) / 8, name, code);
    };
    if (!trace) return;
    here.worker->in_kernel = 0;
    look(a, p.a, p.m * p.k);
    look(b, p.b, p.n * p.k);
    look(c, p.c, p.m * p.n);
}

void multiply(const Product& product, void* d, const void* a, const void* b, const void* c, const char* name) {
    const void* code = __builtin_return_address(0);
    look_at(product, a, b, c, name, code);
    Brought mine{&product, d, a, b, c, name, code};
    meet_for(multiply_together, &mine, name, code);
}

}  // namespace cuda_on_cpu
