// Transfers of the bulk copy engine: cp.async.bulk, its reductions, and (with rows of a box as pieces) those through a
// tensor map. Whoever translates such an instruction makes a BulkTransfer and calls `bulk_begins`.
//
// A transfer is done as late as CUDA allows: where its barrier counts it, when somebody asks for the end of the phase
// (phases.cpp); where its thread does, when that waits for the group (bulk.cpp). A thread that reads too early finds
// what was there before, and what is written over a source too early is what arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda_runtime.h"

namespace cuda_on_cpu {

struct Block;

struct BulkPiece {
    void* to;
    const void* from;  // nullptr: zeros
    uint32_t bytes;
};

// What a reduction makes of `bytes` bytes: each element at `to` changes atomically (reductions.cpp).
using BulkCombine = void (*)(void* to, const void* from, size_t bytes);
enum class BulkOp { add, min, max, inc, dec, bit_and, bit_or, bit_xor };
enum class BulkType { u32, s32, u64, s64, f16, bf16, f32, f64, b32, b64 };
BulkCombine bulk_combine(BulkOp op, BulkType type);  // nullptr if there is no such reduction

// Move these rather than copying them: a box may have thousands of pieces.
struct BulkTransfer {
    std::vector<BulkPiece> pieces;
    const char* name = "cp.async.bulk";  // of the instruction, for messages
    bool is_box = false;                 // a tensor map says what it moves
    const void* code = nullptr;          // where the kernel calls: __builtin_return_address(0) of the entry function
    BulkCombine combine = nullptr;       // of a reduction
    const void* barrier = nullptr;       // the mbarrier that counts it; nullptr: the issuing thread's bulk group does
    uint8_t nan_bytes = 0;               // of an element: a piece from nowhere is NaN instead of zeros
    int64_t bytes = 0;                   // that the barrier counts: of a whole box, with what is outside the tensor

    // `bulk_begins` fills in the rest.
    uint3 block{}, thread{};  // that issued it,
    unsigned int number = 0;  // the thread's place in its block,
    unsigned int group = 0;   // and its group
    bool read = false;        // the source has been read, into `data`
    bool of_registers = false;  // it was there from the start: st.async, red.async
    std::vector<char> data;
    uint32_t begun = 0, writes = 0, reads = 0;  // of a trace: when, and by which of its agents (trace/async.h)
    uint32_t recorded = 0;  // its number in a recording, from 1
};

// ---- bulk.cpp
// The running thread begins a transfer. The caller has left the kernel (`worker->in_kernel = 0`) and has checked
// addresses and sizes by its instruction's rules; the learner's code goes on afterwards.
void bulk_begins(BulkTransfer&& transfer);
// The same to several blocks of the cluster, of which `mask` has the ranks: to where the pieces and the barrier are in
// each of them.
void bulk_multicast(BulkTransfer&& transfer, uint32_t mask);
void bulk_perform(BulkTransfer& transfer);      // moves the bytes, on behalf of the thread that issued it
void bulk_thread_ends(Block& b, struct Fiber& of);  // no one can wait for its groups any more
void bulk_block_ends(Block& b);

}  // namespace cuda_on_cpu
