// The bulk copy engine (bulk.h), and its instructions without tensor maps (phases.h). What a barrier counts is kept and
// done there (phases.cpp); here are the groups of a thread.
#include "bulk.h"

#include <cstring>
#include <string>
#include <utility>

#include "cuda_on_cpu/phases.h"
#include "profile.h"
#include "clusters.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

static constexpr size_t most_transfers = 1024;  // of a thread's groups; beyond that, the oldest are done early

// ---- moving bytes ---------------------------------------------------------------------------------------------------

// While one of these lives, a fault is due to the thread that issued the transfer.
struct OnBehalf {
    Block& b;
    const uint3 before;
    explicit OnBehalf(const BulkTransfer& transfer) : b(block()), before(b.thread) {
        b.thread = transfer.thread;
        enter_kernel(*b.worker);
    }
    ~OnBehalf() {
        b.worker->in_kernel = 0;
        b.thread = before;
    }
};

// What a piece from nowhere brings.
static void fill(const BulkTransfer& transfer, void* to, uint32_t bytes) {
    char* at = static_cast<char*>(to);
    memset(at, transfer.nan_bytes ? 0xff : 0, bytes);
    for (uint32_t i = transfer.nan_bytes; transfer.nan_bytes && i <= bytes; i += transfer.nan_bytes) at[i - 1] = 0x7f;
}

static void read_source(BulkTransfer& transfer) {
    size_t bytes = 0;
    for (const BulkPiece& piece : transfer.pieces) bytes += piece.bytes;
    transfer.data.resize(bytes);
    transfer.read = true;
    OnBehalf acting(transfer);
    char* at = transfer.data.data();
    for (const BulkPiece& piece : transfer.pieces) {
        if (piece.from) memcpy(at, piece.from, piece.bytes);
        else fill(transfer, at, piece.bytes);
        at += piece.bytes;
    }
}

void bulk_perform(BulkTransfer& transfer) {
    OnBehalf acting(transfer);
    const char* data = transfer.data.data();
    for (const BulkPiece& piece : transfer.pieces) {
        const void* from = transfer.read ? data : piece.from;
        data += transfer.read ? piece.bytes : 0;
        if (transfer.combine) transfer.combine(piece.to, from, piece.bytes);
        else if (from) memcpy(piece.to, from, piece.bytes);
        else fill(transfer, piece.to, piece.bytes);
    }
}

// ---- groups of a thread ---------------------------------------------------------------------------------------------

static void finish_oldest(Worker& w, Fiber& of) {
    BulkTransfer transfer = std::move(of.bulk.front());
    of.bulk.pop_front();
    bulk_perform(transfer);
    if (w.trace) trace_bulk_lands(*w.trace, block(), transfer);
}

void bulk_begins(BulkTransfer&& transfer) {
    Block& b = block();
    Worker& w = *b.worker;
    w.in_kernel = 0;
    watch(b);
    Fiber& me = *b.running;
    me.polled = 0;
    transfer.block = b.block;
    transfer.thread = me.thread;
    transfer.number = me.number;
    transfer.group = me.bulk_group;
    if (transfer.barrier) {
        phase_counts(std::move(transfer));
    } else {
        if (w.trace) trace_bulk_begins(*w.trace, b, transfer);
        me.bulk.push_back(std::move(transfer));
        if (me.bulk.size() > most_transfers) finish_oldest(w, me);
    }
    enter_kernel(*my_block().worker);
}

void bulk_multicast(BulkTransfer&& transfer, uint32_t mask) {
    Block& mine = block();
    mine.worker->in_kernel = 0;
    for_each_cta(mask, transfer.name, [&](Block& b) {
        BulkTransfer one = transfer;
        for (BulkPiece& piece : one.pieces) piece.to = moved(piece.to, mine, b);
        one.barrier = moved(one.barrier, mine, b);
        bulk_begins(std::move(one));
        mine.worker->in_kernel = 0;
    });
    enter_kernel(*mine.worker);
}

void bulk_commit() { block().running->bulk_group++; }

void bulk_wait(unsigned int prior, bool reads) {
    Block& b = block();
    if (!b.watched) return;
    Worker& w = *b.worker;
    w.in_kernel = 0;
    Fiber& me = *b.running;
    auto is_over = [&](const BulkTransfer& transfer) { return transfer.group + uint64_t(prior) < me.bulk_group; };
    for (BulkTransfer& transfer : me.bulk) {
        if (transfer.read || !is_over(transfer)) continue;
        if (w.trace) trace_bulk_read(*w.trace, b, transfer);
        if (reads) read_source(transfer);
    }
    while (!reads && !me.bulk.empty() && is_over(me.bulk.front())) {
        if (w.trace) trace_bulk_waited(*w.trace, b, me.bulk.front());
        finish_oldest(w, me);
    }
    enter_kernel(w);
}

void bulk_thread_ends(Block& b, Fiber& of) {
    for (BulkTransfer& transfer : of.bulk) {
        if (transfer.read) {
            bulk_perform(transfer);
            if (b.worker->trace) trace_bulk_lands(*b.worker->trace, b, transfer);
            continue;
        }
        if (b.worker->trace) trace_bulk_unread(*b.worker->trace, b, transfer);
        b.unread.push_back(std::move(transfer));
    }
}

// A block's shared memory belongs to another block when it has ended: that is what a store may find which nobody has
// waited for.
void bulk_block_ends(Block& b) {
    for (BulkTransfer& transfer : b.unread) {
        read_source(transfer);
        fill_with_poison(transfer.data.data(), transfer.data.size());
        bulk_perform(transfer);
        if (b.worker->trace) trace_bulk_lands(*b.worker->trace, b, transfer);
    }
    b.unread.clear();
    if (!b.worker->trace) return;
    for (auto& [barrier, p] : b.phase_barriers)
        for (const BulkTransfer& transfer : p.transfers) trace_bulk_unwaited(*b.worker->trace, b, transfer);
}

// ---- instructions ---------------------------------------------------------------------------------------------------

static void check(const void* address, Access access, const char* name, const void* code) {
    if (size_t(address) % 16 == 0) return;
    Worker& w = *block().worker;
    if (w.trace) trace_misaligned(*w.trace, address, 16, access, code);
    fail(wrong_copy, std::string("calls ") + name + (access == Access::load ? " from" : " to") +
                         " an address that is not a multiple of 16: a trace of this launch shows which");
}

static void check(const void* to, const void* from, unsigned int bytes, const char* name, const void* code) {
    Block& b = block();
    b.worker->in_kernel = 0;
    watch(b);
    b.running->code = code;
    if (bytes % 16)
        fail(wrong_copy, std::string("calls ") + name + " for " + std::to_string(bytes) +
                             " bytes, which is not a multiple of 16");
    if (from) check(from, Access::load, name, code);
    if (to) check(to, Access::store, name, code);
}

// Between shared memories. Elsewhere an H200 says "an illegal instruction was encountered", with the block itself, too.
static void needs_cluster(const char* name) {
    if (!block().cluster)
        fail(wrong_copy, std::string("calls ") + name + " to shared memory in a launch without clusters: declare a cluster " +
                             "of one block, `__cluster_dims__(1, 1, 1)`");
}

static BulkTransfer transfer_of(void* to, const void* from, unsigned int bytes, const char* name, const void* code) {
    check(to, from, bytes, name, code);
    if (block().arena.around(to) && block().arena.around(from)) needs_cluster(name);
    BulkTransfer transfer;
    transfer.pieces.push_back({to, from, bytes});
    transfer.name = name;
    transfer.code = code;
    transfer.bytes = bytes;
    return transfer;
}

static void note(const void* to, const void* from, unsigned int bytes, unsigned int mask, const char* name,
                 const void* code) {
    if (Worker& w = *block().worker; w.trace) trace_bytes_copied(*w.trace, block(), to, from, bytes, mask, name, code);
}

void bulk_load(void* to, const void* from, unsigned int bytes, const void* barrier, unsigned int mask, const char* name) {
    const void* code = __builtin_return_address(0);
    BulkTransfer transfer = transfer_of(to, from, bytes, name, code);
    note(to, from, bytes, mask, name, code);
    transfer.barrier = barrier;
    if (mask) bulk_multicast(std::move(transfer), mask);
    else bulk_begins(std::move(transfer));
}

void bulk_store(void* to, const void* from, unsigned int bytes, const char* name) {
    const void* code = __builtin_return_address(0);
    BulkTransfer transfer = transfer_of(to, from, bytes, name, code);
    note(to, from, bytes, 0, name, code);
    bulk_begins(std::move(transfer));
}

void bulk_reduce(void* to, const void* from, unsigned int bytes, const void* barrier, int op, int type,
                 const char* name) {
    const void* code = __builtin_return_address(0);
    BulkTransfer transfer = transfer_of(to, from, bytes, name, code);
    note(to, from, bytes, 0, name, code);
    transfer.barrier = barrier;
    transfer.combine = bulk_combine(BulkOp(op), BulkType(type));
    bulk_begins(std::move(transfer));
}

// A store or a reduction of registers: its source has been read.
static void store_async(void* to, const void* value, unsigned int bytes, BulkCombine combine, const void* barrier,
                        const char* name, const void* code) {
    Block& b = block();
    b.worker->in_kernel = 0;
    watch(b);
    b.running->code = code;
    needs_cluster(name);
    if (size_t(to) % bytes) {
        if (b.worker->trace) trace_misaligned(*b.worker->trace, to, bytes, Access::store, code);
        fail(wrong_copy, std::string("calls ") + name + " to an address that is not a multiple of " + std::to_string(bytes) +
                             ": a trace of this launch shows which");
    }
    BulkTransfer transfer;
    transfer.pieces.push_back({to, nullptr, bytes});
    transfer.name = name;
    transfer.code = code;
    transfer.bytes = bytes;
    transfer.barrier = barrier;
    transfer.combine = combine;
    transfer.read = transfer.of_registers = true;
    transfer.data.assign(static_cast<const char*>(value), static_cast<const char*>(value) + bytes);
    bulk_begins(std::move(transfer));
}

void async_store(void* to, const void* value, unsigned int bytes, const void* barrier, const char* name) {
    store_async(to, value, bytes, nullptr, barrier, name, __builtin_return_address(0));
}

void async_reduce(void* to, const void* value, unsigned int bytes, int op, int type, const void* barrier,
                  const char* name) {
    store_async(to, value, bytes, bulk_combine(BulkOp(op), BulkType(type)), barrier, name, __builtin_return_address(0));
}

void bulk_prefetch(const void* from, unsigned int bytes, const char* name) {
    check(nullptr, from, bytes, name, __builtin_return_address(0));
    enter_kernel(*block().worker);
}

}  // namespace cuda_on_cpu
