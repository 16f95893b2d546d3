// ldmatrix, stmatrix and movmatrix (include/cuda_on_cpu/ptx/matrices.h). A lane checks the row whose address it gives;
// the last to arrive moves the rows of all.
#include <cstring>

#include "cuda_on_cpu/ptx/matrices.h"
#include "runtime.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

struct Rows {  // what a lane brings
    uint32_t* registers;
    unsigned char* row;  // 16 bytes; nullptr: its address is not used
    unsigned int count;
    bool transpose, loads;
};

static void* half_of(uint32_t* registers, unsigned int matrix, unsigned int half) {
    return reinterpret_cast<char*>(registers + matrix) + 2 * half;
}

static void move_together(void* const (&brought)[32], unsigned int came) {
    const Rows& one = *static_cast<const Rows*>(brought[__builtin_ctz(came)]);
    for (unsigned int matrix = 0; matrix < one.count; matrix++)
        for (unsigned int lane = 0; lane < 32; lane++)
            for (unsigned int half = 0; half < 2; half++) {
                ptx::Cell at = ptx::place_in_a(8, 8, 16, lane, half);
                if (one.transpose) at = ptx::transposed(at);
                auto* holds = static_cast<Rows*>(brought[lane]);
                auto* gives = static_cast<Rows*>(brought[matrix * 8 + at.row]);  // the address
                if (one.loads && holds) {
                    const void* from = gives ? static_cast<void*>(gives->row + 2 * at.column) : (void*)&poison;
                    memcpy(half_of(holds->registers, matrix, half), from, 2);
                } else if (!one.loads && gives) {
                    const void* from = holds ? half_of(holds->registers, matrix, half) : (void*)&poison;
                    memcpy(gives->row + 2 * at.column, from, 2);
                }
            }
}

// The row that the calling lane gives the address of, once it is known to be in shared memory.
static unsigned char* checked_row(unsigned int count, bool transpose, uint32_t shared_address, bool loads,
                                  const void* code) {
    Block& b = block();
    if (lane() >= 8 * count) return nullptr;
    unsigned char* row = b.arena.get() + shared_address;
    Worker& w = *b.worker;
    w.in_kernel = 0;
    watch(b);
    if (shared_address % 16) {
        if (w.trace) trace_misaligned(*w.trace, row, 16, loads ? Access::load : Access::store, code);
        fail(wrong_copy, std::string(loads ? "calls ldmatrix for" : "calls stmatrix for") +
                             " a row at an address that is not a multiple of 16: a trace of this launch shows which");
    }
    if (w.trace) trace_row(*w.trace, row, loads ? Access::load : Access::store, transpose, code);
    enter_kernel(w);
    volatile unsigned char* ends = row;  // where nothing is, this thread is the one that is named
    for (unsigned int byte : {0, 15}) {
        const unsigned char was = ends[byte];
        if (!loads) ends[byte] = was;
    }
    return row;
}

void load_matrices(uint32_t* d, unsigned int count, bool transpose, uint32_t shared_address) {
    const void* code = __builtin_return_address(0);
    Rows mine{d, checked_row(count, transpose, shared_address, true, code), count, transpose, true};
    meet_for(move_together, &mine, "ldmatrix.sync", code);
}

void store_matrices(uint32_t shared_address, const uint32_t* s, unsigned int count, bool transpose) {
    const void* code = __builtin_return_address(0);
    Rows mine{const_cast<uint32_t*>(s), checked_row(count, transpose, shared_address, false, code), count, transpose, false};
    meet_for(move_together, &mine, "stmatrix.sync", code);
}

static void transpose_together(void* const (&brought)[32], unsigned int) {
    uint32_t all[32];
    for (unsigned int lane = 0; lane < 32; lane++)
        all[lane] = brought[lane] ? *static_cast<uint32_t*>(brought[lane]) : uint32_t(poison);
    for (unsigned int lane = 0; lane < 32; lane++) {
        if (!brought[lane]) continue;
        uint32_t result = 0;
        for (unsigned int half = 0; half < 2; half++) {
            const unsigned int row = lane % 4 * 2 + half, column = lane / 4;
            result |= (all[row * 4 + column / 2] >> column % 2 * 16 & 0xffff) << half * 16;
        }
        *static_cast<uint32_t*>(brought[lane]) = result;
    }
}

uint32_t transpose_matrix(uint32_t s) {
    meet_for(transpose_together, &s, "movmatrix.sync", __builtin_return_address(0));
    return s;
}

}  // namespace cuda_on_cpu
