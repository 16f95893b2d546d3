// The numbers of wgmma: both tiles become rows of 32 bytes along k, then values, and each sum takes a whole row at once
// (accumulate.h).
#include <algorithm>
#include <bit>
#include <cstring>

#include "accumulate.h"
#include "descriptors.h"
#include "warpgroups.h"

namespace cuda_on_cpu {

using ptx::Type;

static constexpr unsigned int longest_side = 256, line_bytes = 32, rows = 64;
using Lines = unsigned char[longest_side][line_bytes];

static constexpr unsigned int most_k = 32;
struct Values {
    double values[longest_side][most_k];
    int16_t exponents[longest_side][most_k];
};

struct Work {
    Lines lines[2];
    Values a, b;
    int16_t wide[2][longest_side][line_bytes];
};
static Work& work_of_this_cpu_thread() {
    static thread_local const std::unique_ptr<Work> work = std::make_unique<Work>();
    return *work;
}

static void gather(Lines& lines, const unsigned char* shared, const SharedTile& tile, bool by_k, unsigned int count) {
    each_piece(tile, by_k, count, [&](uint32_t at, unsigned int line, unsigned int k) {
        if (by_k) memcpy(lines[line] + 16 * k, shared + at, 16);
        for (unsigned int i = 0; !by_k && i < 8; i++) memcpy(lines[line + i] + 2 * k, shared + at + 2 * i, 2);
    });
}

// Each warp has 16 rows of A, as in mma.
static void gather(Lines& lines, const std::vector<RegistersOfA>& threads, const WarpgroupProduct& p) {
    const unsigned int bits = bits_of(p.a), per = 32 / bits;
    for (unsigned int thread = 0; thread < warpgroup_threads; thread++)
        for (unsigned int r = 0; r < 4; r++) {
            const ptx::Cell at = ptx::place_in_a(16, p.k, bits, thread % 32, r * per);
            memcpy(lines[thread / 32 * 16 + at.row] + at.column * bits / 8, threads[thread].values + r, 4);
        }
}

// ---- floating point

static void evaluate(Values& to, const Lines& lines, unsigned int count, Type type, unsigned int k, bool negates) {
    const unsigned int bytes = bits_of(type) / 8;
    for (unsigned int line = 0; line < count; line++)
        for (unsigned int i = 0; i < k; i++) {
            uint32_t bits = 0;
            memcpy(&bits, lines[line] + i * bytes, bytes);
            const Term term = term_of(type, bits);
            to.values[line][i] = negates ? -term.value : term.value;
            to.exponents[line][i] = term.exponent;
        }
}

template <int k>
static void add_rows(const Values& a, const Values& b, const WarpgroupProduct& p, const Sums& how, uint32_t* sums) {
    for (unsigned int i = 0; i < rows; i++)
        for (unsigned int j = 0; j < p.n; j++) {
            uint32_t& sum = sums[i * p.n + j];
            sum = how.add<k>(a.values[i], a.exponents[i], b.values[j], b.exponents[j], term_of(p.d, sum));
        }
}

static void multiply_floats(const WarpgroupProduct& p, const Lines& a, const Lines& b, uint32_t* sums) {
    Values &va = work_of_this_cpu_thread().a, &vb = work_of_this_cpu_thread().b;
    evaluate(va, a, rows, p.a, p.k, p.negate_a);
    evaluate(vb, b, p.n, p.b, p.k, p.negate_b);
    const bool is_fp8 = bits_of(p.a) == 8;
    const Accumulation& gpu = is_fp8 ? warpgroup_fp8 : accumulations[std::size(accumulations) - 1];
    const Sums how{gpu.fraction, p.d == Type::f16, is_fp8 ? warpgroup_fp8_mantissa : 23};
    if (p.k == 8) add_rows<8>(va, vb, p, how, sums);
    if (p.k == 16) add_rows<16>(va, vb, p, how, sums);
    if (p.k == 32) add_rows<32>(va, vb, p, how, sums);
}

// ---- whole numbers: exact, and what does not fit wraps around or saturates

static void multiply_integers(const WarpgroupProduct& p, const Lines& a, const Lines& b, uint32_t* sums) {
    auto& wide = work_of_this_cpu_thread().wide;
    auto widen = [](const Lines& lines, unsigned int count, Type type, int16_t (&to)[longest_side][line_bytes]) {
        for (unsigned int line = 0; line < count; line++)
            for (unsigned int i = 0; i < line_bytes; i++)
                to[line][i] = type == Type::s8 ? int8_t(lines[line][i]) : lines[line][i];
    };
    widen(a, rows, p.a, wide[0]);
    widen(b, p.n, p.b, wide[1]);
    for (unsigned int i = 0; i < rows; i++)
        for (unsigned int j = 0; j < p.n; j++) {
            int32_t sum = 0;
            for (unsigned int k = 0; k < line_bytes; k++) sum += int32_t(wide[0][i][k]) * wide[1][j][k];
            uint32_t& to = sums[i * p.n + j];
            const int64_t exact = int64_t(int32_t(to)) + sum;
            to = uint32_t(p.saturate ? std::clamp<int64_t>(exact, INT32_MIN, INT32_MAX) : exact);
        }
}

static void multiply_bits(const WarpgroupProduct& p, const Lines& a, const Lines& b, uint32_t* sums) {
    auto word = [](const unsigned char* line, unsigned int k) {
        uint64_t bits;
        memcpy(&bits, line + 8 * k, 8);
        return bits;
    };
    for (unsigned int i = 0; i < rows; i++)
        for (unsigned int j = 0; j < p.n; j++)
            for (unsigned int k = 0; k < line_bytes / 8; k++)
                sums[i * p.n + j] += std::popcount(word(a[i], k) & word(b[j], k));
}

void multiply(const WarpgroupOperation& operation, const unsigned char* shared, const SharedTile& a, const SharedTile& b) {
    auto& [lines_of_a, lines_of_b] = work_of_this_cpu_thread().lines;
    const WarpgroupProduct& p = *operation.product;
    if (p.a_in_registers) gather(lines_of_a, operation.registers, p);
    else gather(lines_of_a, shared, a, !p.a_columns, rows);
    gather(lines_of_b, shared, b, !p.b_rows, p.n);
    std::vector<uint32_t>& sums = operation.into->sums;
    if (!operation.adds) std::fill(sums.begin(), sums.end(), 0);
    if (p.a == Type::b1) multiply_bits(p, lines_of_a, lines_of_b, sums.data());
    else if (is_float(p.a)) multiply_floats(p, lines_of_a, lines_of_b, sums.data());
    else multiply_integers(p, lines_of_a, lines_of_b, sums.data());
}

}  // namespace cuda_on_cpu
