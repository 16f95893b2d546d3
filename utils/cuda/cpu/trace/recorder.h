// What a player shows: each access of the threads of a few blocks, with its value and the variables of the thread.
//
// The launch runs again, compiled without optimization, and linked so that calls of the compiler's hooks, and of the
// runtime's functions in which threads wait, reach recorder_hooks.cpp first. It notes where the thread is in the
// learner's own functions, and the trace goes on as usual. The recorder keeps each event of a thread (`saw`, `did`)
// until requests.cpp has grouped the lanes of a warp into a step (`counted`).
#pragma once

#include <cstdint>
#include <array>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "state.h"

namespace cuda_on_cpu {

// What a lane did. recorder.py reads this and the following structs byte by byte, so keep both alike.
enum class Did : uint8_t { read, write, atomic, copy, barrier, passed, shuffle, exit, line, product, arrive };

// A step of a warp: `lanes` did the same. The first lane's `Seen` is number order[first], the next order[first + 1].
struct RecordedStep {
    uint64_t block;
    uint32_t warp, lanes, first;
    uint32_t sectors, wavefronts, least_wavefronts;
    uint8_t did, bytes, space, from_copy;  // from_copy: one end of an asynchronous copy
    uint8_t matrices;                      // matrix_rows or matrix_columns: the rows of ldmatrix or stmatrix
    uint16_t epoch;                        // how often all threads of the block have met before, modulo 65,536
};

// One lane's side of a step.
struct Seen {
    uint64_t address, value[2];
    const char* function;  // in which it waits; nullptr otherwise
    uint32_t frame;  // the number of its innermost frame in one of the learner's functions; the kernel's is the last
    uint16_t memory;  // of a product: its number in Recorder::products; value[0] is where its operands begin
    uint8_t frames, did, has_value, source, size;  // source: the lane that a shuffle reads; size: of an access
};

// A frame of one of the learner's functions: where it is, and the bytes of its variables.
struct SeenFrame {
    uint32_t pc, function;  // pc: a return address, from where the module begins
    uint64_t bytes;         // where they begin in Recorder::bytes
    uint64_t address;       // the frame's, to which references to its variables are relative
};

struct RecordedMemory {
    const char *name, *type;  // type: of a shared variable; otherwise empty
    uint64_t begin, bytes, element, offset;
    int64_t block;  // of a shared variable, otherwise -1
    uint64_t space;
    const void* before;  // its bytes when a kept block first touched it
};

// A barrier in memory, and what happens to it, in the order in which it ran.
struct RecordedBarrier {
    const char* name;  // 'full[1]'
    uint64_t block, address;
};
struct RecordedChange {
    uint64_t block;               // that of the thread which does it
    int64_t count, bytes;         // as in trace.h
    uint32_t barrier, life;       // its number, none: ~0; and how often it was initialised before
    uint32_t phase, seen, copy;   // the numbers of the thread's event and of the bulk copy, from 1; 0: none
    uint32_t what;                // BarrierChange
};
// A bulk copy: its pieces, joined where neighbours are, in RecordedRuns: `from` of those it reads, then `to`.
struct RecordedCopy {
    uint64_t block, bytes, landed;  // of the memory that it fills; landed: where its values are in Recorder::landed, ~0: nowhere
    uint32_t thread, first, from, to;
};
struct RecordedRun {
    uint64_t address;
    uint32_t bytes, memory;
};

using RecordedProduct = std::array<uint32_t, 10>;  // as utils/cuda/cpu/fragments.py takes it

// From Python: one of the learner's functions, and its variables' places in the frame.
struct OwnFunction {
    uint64_t begin, end;  // in the module
    uint32_t first, count;  // of its slots
    uint32_t is_kernel, bytes;
};
struct Slot {
    int64_t offset;  // from the frame's address (DWARF's canonical frame address)
    uint32_t bytes, is_parameter;
};

class Recorder : public Requests::Observer {
public:
    // The request.
    uintptr_t module_begin = 0;
    std::vector<std::array<uint64_t, 4>> wanted;  // blocks: number, or ~0 and index
    std::string wanted_kernel;                    // its first launch is recorded; empty: of any kernel
    size_t most_steps = 0;  // of a block
    std::vector<OwnFunction> functions;  // sorted by where they begin
    std::vector<Slot> slots;

    // The result.
    std::vector<RecordedStep> steps;
    std::vector<uint32_t> order;
    std::vector<Seen> seen;
    std::vector<SeenFrame> frames;
    std::vector<unsigned char> bytes;
    std::vector<RecordedMemory> memories;
    std::vector<RecordedProduct> products;  // different ones
    std::vector<unsigned char> operands;    // of a lane: its elements of A, B, C and D, each from a multiple of 8 bytes
    std::vector<RecordedBarrier> barriers;
    std::vector<RecordedChange> changes;
    std::vector<RecordedCopy> copies;
    std::vector<RecordedRun> runs;
    std::vector<unsigned char> landed;  // the bytes that bulk copies have brought, up to most_landed
    std::string kernel;
    std::unordered_set<uint64_t> kept;  // numbers of blocks
    dim3 grid_size, block_size;
    bool copying = false;  // whether the running thread is starting an asynchronous copy
    bool cut = false;  // whether a block did more than is kept

    // From the hooks. `frame` is the address of the hook's own frame, which holds its caller's.
    bool arrives(const void* code, void** frame);  // whether a kept thread is running; its last store is done by now
    void enters(const void* code, void** frame);   // a function begins: its variables have no values yet
    bool in_own_function() const { return direct; }  // one of the learner's functions called the hook
    bool in_kernel() const { return direct && direct->is_kernel; }
    void did(Did what, const char* function = nullptr, uint64_t value = 0, uint8_t source = 0);
    void got(uint64_t value);  // the result of a shuffle
    void multiplies(const ptx::Product& product, const void* a, const void* b, const void* c, const char* function);
    void multiplied(const ptx::Product& product, const void* d);
    void asked(bool over);  // the thread has waited for the end of a phase, or asked in vain

    // From the trace.
    void launch_begins(const char* name, const Launch& launch);
    void launch_ends() { active = false; }
    void block_begins(const Block& b);
    void block_ends(const Block& b);
    void thread_ends(Block& b, unsigned int thread);
    void lands(Block& b, const void* to, size_t size, const Region& region);  // an asynchronous copy
    void all_have_arrived(const Block& b) { epochs[b.number]++; }
    void barrier_changes(Block& b, const void* barrier, BarrierChange what, uint64_t phase, int64_t count, int64_t bytes);
    void copy_begins(Trace& t, Block& b, BulkTransfer& transfer);
    void copy_lands(Block& b, const BulkTransfer& transfer);
    const void* saw(Block& b, uintptr_t a, size_t size, Op op, const Region& region, const void* code);
    void counted(const Site& site, unsigned int lanes, uint64_t block, unsigned int warp, uint64_t sectors,
                 uint64_t wavefronts, uint64_t least_wavefronts) override;
    bool is_over() const { return over; }

private:
    struct Thread {
        std::deque<uint32_t> waiting;  // numbers of its events that are not counted yet
        int64_t store = -1, shuffle = -1, product = -1;  // numbers of the last of each, if its value is not known yet
        bool left = false;
        RecordedChange awaits{0, 0, 0, ~0u};  // the phase that it has asked for
    };
    struct Place {  // of the running thread
        const void* code = nullptr;
        uint32_t frame = 0;
        uint8_t frames = 0;
    } place;
    const OwnFunction* direct = nullptr;  // the one that called the hook
    bool active = false, over = false;
    size_t ended = 0;  // number of kept blocks that are done
    std::unordered_map<uint64_t, size_t> counts;  // of steps, by block
    std::unordered_map<uint64_t, std::vector<Thread>> threads;  // by kept block
    std::map<std::tuple<int64_t, uintptr_t, uintptr_t>, uint16_t> known;  // memories by block, begin and end
    std::deque<std::vector<unsigned char>> before;
    std::deque<std::string> names;
    std::unordered_map<uint64_t, uint16_t> epochs;  // by block
    struct Life {
        uint32_t number, life;
    };
    std::map<std::pair<uint64_t, const void*>, Life> lives;  // of barriers, by block and address
    bool landing = false;  // copies land now that a barrier waits for:
    RecordedChange landing_for;

    Thread* running();
    const OwnFunction* function_at(const void* code) const;
    void settle(Thread& t);
    uint16_t memory_of(Block& b, const Region& region);
    void note(Thread& t, Seen s);
    void uncounted(Block& b);  // adds an event that is not an access to the trace's list
    void forget(uint64_t number);
    bool keeps(const Block& b) const { return active && threads.count(b.number); }
    RecordedChange change(const Block& b, const void* barrier, BarrierChange what, uint64_t phase) const;
    void note_change(RecordedChange c, bool own);
    void add_runs(Trace& t, Block& b, std::vector<BulkPiece> pieces);
};

}  // namespace cuda_on_cpu
