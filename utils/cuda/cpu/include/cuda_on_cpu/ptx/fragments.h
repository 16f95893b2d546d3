// Fragments: how a warp's 32 lanes hold a matrix of the tensor cores between them ("PTX ISA", Matrix Fragments for
// mma.m8n8k4 ... mma.m16n8k256).
//
// Lanes come in 8 groups of 4. `group` (lane / 4) and `member` (lane % 4) say which elements a lane has: of A, B and
// the accumulators, eight rows or columns at a time belong to the eight groups. The elements that fill one register
// of 32 bits are neighbours along k, or in a row of an accumulator.
//
// wmma's shapes are made of these: its layout is unspecified, and nvcc's for sm_80 and later (read from the machine code
// that it makes for loads and stores) is that of the m16n8 instructions, tile after tile. m8n32k16 is the transposed
// product, m32n8k16.
#pragma once

#include <cstdint>

namespace cuda_on_cpu::ptx {

enum class Type : uint8_t { f16, bf16, tf32, f32, f64, s8, u8, s4, u4, b1, s32, e4m3, e5m2 };

#define CUDA_ON_CPU_TAG(name) \
    struct name {             \
        static constexpr Type type = Type::name; \
    };
CUDA_ON_CPU_TAG(f16)
CUDA_ON_CPU_TAG(bf16)
CUDA_ON_CPU_TAG(tf32)
CUDA_ON_CPU_TAG(f32)
CUDA_ON_CPU_TAG(f64)
CUDA_ON_CPU_TAG(s8)
CUDA_ON_CPU_TAG(u8)
CUDA_ON_CPU_TAG(s4)
CUDA_ON_CPU_TAG(u4)
CUDA_ON_CPU_TAG(b1)
CUDA_ON_CPU_TAG(s32)
CUDA_ON_CPU_TAG(e4m3)
CUDA_ON_CPU_TAG(e5m2)
#undef CUDA_ON_CPU_TAG
struct b1_and : b1 {};  // the bits of both are combined by `and`, not by `xor`

constexpr unsigned int bits_of(Type type) {
    switch (type) {
        case Type::f64: return 64;
        case Type::tf32: case Type::f32: case Type::s32: return 32;
        case Type::f16: case Type::bf16: return 16;
        case Type::s8: case Type::u8: case Type::e4m3: case Type::e5m2: return 8;
        case Type::s4: case Type::u4: return 4;
        default: return 1;
    }
}
constexpr bool is_float(Type t) { return t <= Type::f64 || t == Type::e4m3 || t == Type::e5m2; }

// d = a * b + c, with a of m x k elements, b of k x n.
struct Product {
    uint8_t m, n;
    uint16_t k;
    Type d, a, b, c;
    bool saturate = false;  // whole numbers: what is too large becomes the largest there is
    bool bit_and = false;   // of b1
    bool quads = false;     // mma.m8n8k4 of f16: four products, each by eight lanes
    bool a_columns = false, b_rows = false;  // of quads: not row by column
    uint8_t step = 0;       // at most so many products are added up at once; 0: as many as the GPU can
};

struct Cell {
    unsigned int row, column;
};
constexpr Cell transposed(Cell p) { return {p.column, p.row}; }

// Element `e` of a lane's part of A, of `rows` x k: 8 rows, or tiles of 16.
constexpr Cell place_in_a(unsigned int rows, unsigned int k, unsigned int bits, unsigned int lane, unsigned int e) {
    const unsigned int per = bits < 32 ? 32 / bits : 1, group = lane / 4, member = lane % 4;
    if (rows == 8) return {group, (e / per * 4 + member) * per + e % per};
    const unsigned int elements = 16 * k / 32, tile = e / elements, r = e % elements / per;
    return {tile * 16 + group + r % 2 * 8, (r / 2 * 4 + member) * per + e % per};
}

// The same of B, of k x `columns`: tiles of 8 columns, or 32 columns, which are an A of the transposed product.
constexpr Cell place_in_b(unsigned int columns, unsigned int k, unsigned int bits, unsigned int lane, unsigned int e) {
    if (columns == 32) return transposed(place_in_a(32, k, bits, lane, e));
    const unsigned int elements = 8 * k / 32, tile = e / elements;
    Cell p = transposed(place_in_a(8, k, bits, lane, e % elements));
    return {p.row, p.column + tile * 8};
}

// The same of C and D: tiles of 16 x 8, or one of 8 x 8.
constexpr Cell place_in_c(unsigned int rows, unsigned int columns, unsigned int lane, unsigned int e) {
    if (rows == 8 && columns == 32) return transposed(place_in_c(32, 8, lane, e));
    const unsigned int tile = e / 4;
    return {(rows == 32 ? tile * 16 : 0) + lane / 4 + e % 4 / 2 * 8, (rows == 16 ? tile * 8 : 0) + lane % 4 * 2 + e % 2};
}

// mma.m8n8k4 of f16: lanes q * 4 to q * 4 + 3 and q * 4 + 16 to q * 4 + 19 compute the q-th of four products. `row` and
// `column` are those of its own matrices. Element e of four of A or B, whose lines are rows or columns of A; of eight of
// C and D, whose order depends on their type.
constexpr Cell place_in_quad_line(bool line_is_k, unsigned int lane, unsigned int e) {
    const unsigned int high = lane / 16 * 4;
    return line_is_k ? Cell{lane % 4, e + high} : Cell{lane % 4 + high, e};  // {k, m or n} : {m or n, k}
}
constexpr Cell place_in_quad_c(Type type, unsigned int lane, unsigned int e) {
    const unsigned int high = lane / 16 * 4;
    if (type == Type::f16) return {lane % 4 + high, e};
    return {lane % 2 + e % 4 / 2 * 2 + high, e / 4 * 4 + lane % 4 / 2 * 2 + e % 2};
}

}  // namespace cuda_on_cpu::ptx

namespace cuda_on_cpu {

// In runtime/products.cpp: the lanes of a warp meet and compute d. Each brings its own elements, packed as in registers;
// `name` is the instruction's, for messages.
void multiply(const ptx::Product& product, void* d, const void* a, const void* b, const void* c, const char* name);

}  // namespace cuda_on_cpu
