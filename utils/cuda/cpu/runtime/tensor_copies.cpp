// Copies of boxes between a tensor and shared memory (tensor_copies.h): each becomes a transfer of the bulk copy engine,
// whose pieces are the box's rows, or 16-byte chunks where they change places (boxes.h).
#include "cuda_on_cpu/tensor_copies.h"

#include <string>
#include <utility>

#include "boxes.h"
#include "bulk.h"
#include "runtime.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

static const char* const types[] = {"uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32",
                                    "float64", "bfloat16", "float32_ftz", "tfloat32", "tfloat32_ftz"};
static const char* const ops[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};

// What this engine does not know about a map; empty if it knows all.
static std::string beyond(const TensorMap& map, bool loads) {
    if (map.interleave) return "interleaves its elements";
    if (map.type > CU_TENSOR_MAP_DATA_TYPE_BFLOAT16) return std::string("has elements of ") + types[map.type];
    for (int d = 1; d < map.rank; d++)
        if (!loads && map.steps[d] > 1) return "leaves out elements between those that it stores";
    return "";
}

// What is wrong with the place of a box; empty if nothing is. An H200 ends such kernels with "an illegal instruction was
// encountered". That a box may begin before the tensor only where it is loaded is in the CUDA C++ Programming Guide, too
// ("Tensor Memory Accelerator"); that rows begin at a multiple of 16 bytes was measured, for each type and swizzle, also
// of what is prefetched.
static std::string misplaced(const TensorMap& map, const int32_t* at, bool loads) {
    const int64_t bytes = int64_t(at[0]) * map.element();
    if (bytes % 16)
        return "with the first coordinate " + std::to_string(at[0]) + ", " + std::to_string(bytes) + " bytes into a row of " +
               types[map.type] + ": it has to be a multiple of 16 bytes";
    for (int d = 0; !loads && d < map.rank; d++)
        if (at[d] < 0)
            return "with the coordinate " + std::to_string(at[d]) + " (number " + std::to_string(d + 1) + " of " +
                   std::to_string(map.rank) + "): only a box that is loaded may begin before the tensor";
    return "";
}

// The map at an address, for a box at `rank` coordinates and at `shared` (nullptr: none). The running thread enters the
// runtime at `code`.
static TensorMap map_at(const void* place, const int32_t* at, int rank, const void* shared, bool loads, const char* name,
                        const void* code) {
    TensorMap map;
    memcpy(&map, place, sizeof map);  // still as the learner's code: there may be no memory
    Block& b = block();
    Worker& w = *b.worker;
    w.in_kernel = 0;
    watch(b);
    b.running->function = name;
    b.running->code = code;
    auto refuse = [&](const std::string& what) { fail(wrong_copy, std::string("calls ") + name + " " + what); };
    if (b.arena.around(place)) refuse("with a tensor map in shared memory: it has to be a parameter, or in global memory");
    if (size_t(place) % 64) refuse("with a tensor map at an address that is not a multiple of 64");
    if (!map.is_whole()) refuse("with a tensor map that cuTensorMapEncodeTiled did not make, or that was changed since");
    if (map.rank != rank)
        refuse("with " + std::to_string(rank) + (rank > 1 ? " coordinates" : " coordinate") +
               ", but the map's tensor has " + std::to_string(map.rank) + (map.rank > 1 ? " dimensions" : " dimension"));
    if (const std::string what = beyond(map, loads); !what.empty())
        refuse("with a tensor map that " + what + ", which only a GPU can do");
    if (w.trace) trace_map(*w.trace, b, place, code);
    if (const std::string what = misplaced(map, at, loads); !what.empty()) refuse(what);
    if (!shared) return map;
    if (w.trace) trace_box(*w.trace, b, map, shared, loads, code);
    const auto at_shared = static_cast<const unsigned char*>(shared) - b.arena.get();
    if (at_shared < 0 || !b.arena.holds(at_shared, map.room()))
        refuse("for a box of " + std::to_string(map.room()) + " bytes, which does not fit into the block's shared memory");
    if (at_shared % 128)
        refuse(std::string(loads ? "to" : "from") + " an address of shared memory that is not a multiple of 128");
    return map;
}

static BulkTransfer transfer_of(const TensorMap& map, const int32_t* at, const void* shared, bool loads,
                                const char* name, const void* code) {
    BulkTransfer transfer;
    transfer.name = name;
    transfer.is_box = true;
    transfer.code = code;
    transfer.bytes = int64_t(map.bytes());
    char* arena = reinterpret_cast<char*>(block().arena.get());
    transfer.pieces.reserve(size_t(map.rows()) * (map.span() ? map.span() / 16 : 1));
    each_piece(map, at, uint32_t(static_cast<const char*>(shared) - arena), [&](uint32_t to, uint64_t from, uint32_t bytes) {
        if (loads) transfer.pieces.push_back({arena + to, reinterpret_cast<const void*>(from), bytes});
        else if (from) transfer.pieces.push_back({reinterpret_cast<void*>(from), arena + to, bytes});
    });
    if (map.fill) transfer.nan_bytes = map.element();
    return transfer;
}

static void note(const TensorMap& map, const int32_t* at, const void* shared, bool loads, unsigned int mask,
                 const char* name, const void* code) {
    if (Worker& w = *block().worker; w.trace)
        trace_box_copied(*w.trace, block(), map, at, shared, loads, mask, name, code);
}

void tensor_load(void* to, const void* place, const int32_t* at, int rank, const void* barrier, unsigned int mask,
                 const char* name) {
    const void* code = __builtin_return_address(0);
    const TensorMap map = map_at(place, at, rank, to, true, name, code);
    BulkTransfer transfer = transfer_of(map, at, to, true, name, code);
    note(map, at, to, true, mask, name, code);
    transfer.barrier = barrier;
    if (mask) bulk_multicast(std::move(transfer), mask);
    else bulk_begins(std::move(transfer));
}

void tensor_store(const void* place, const int32_t* at, int rank, const void* from, const char* name) {
    const void* code = __builtin_return_address(0);
    const TensorMap map = map_at(place, at, rank, from, false, name, code);
    BulkTransfer transfer = transfer_of(map, at, from, false, name, code);
    note(map, at, from, false, 0, name, code);
    bulk_begins(std::move(transfer));
}

// As what a reduction sees the elements; the instruction itself does not say. (An H200 takes bits of int32, not of int64.)
static BulkCombine combine_of(int op, int type) {
    const bool bits = BulkOp(op) >= BulkOp::bit_and;
    switch (type) {
        case CU_TENSOR_MAP_DATA_TYPE_UINT32: return bulk_combine(BulkOp(op), bits ? BulkType::b32 : BulkType::u32);
        case CU_TENSOR_MAP_DATA_TYPE_INT32: return bulk_combine(BulkOp(op), bits ? BulkType::b32 : BulkType::s32);
        case CU_TENSOR_MAP_DATA_TYPE_UINT64: return bulk_combine(BulkOp(op), bits ? BulkType::b64 : BulkType::u64);
        case CU_TENSOR_MAP_DATA_TYPE_INT64: return bits ? nullptr : bulk_combine(BulkOp(op), BulkType::s64);
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT16: return bulk_combine(BulkOp(op), BulkType::f16);
        case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return bulk_combine(BulkOp(op), BulkType::bf16);
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT32: return bulk_combine(BulkOp(op), BulkType::f32);
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return bulk_combine(BulkOp(op), BulkType::f64);
    }
    return nullptr;
}

void tensor_reduce(const void* place, const int32_t* at, int rank, const void* from, int op, const char* name) {
    const void* code = __builtin_return_address(0);
    const TensorMap map = map_at(place, at, rank, from, false, name, code);
    BulkTransfer transfer = transfer_of(map, at, from, false, name, code);
    note(map, at, from, false, 0, name, code);
    transfer.combine = combine_of(op, map.type);
    if (!transfer.combine)
        fail(wrong_copy, std::string("calls ") + name + "." + ops[op] + " with a tensor map of " + types[map.type] +
                             ", which has no such reduction");
    bulk_begins(std::move(transfer));
}

void tensor_prefetch(const void* place, const int32_t* at, int rank, const char* name) {
    map_at(place, at, rank, nullptr, true, name, __builtin_return_address(0));
    enter_kernel(*block().worker);
}

void tensor_map_fence() {
    Block& b = block();
    if (b.worker->trace) trace_map_fence(*b.worker->trace, b);
}

}  // namespace cuda_on_cpu
