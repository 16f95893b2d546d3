// What a trace keeps: tensors and shared variables, problems, and what each thread did last.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "races.h"
#include "requests.h"
#include "stream_order.h"
#include "symbols.h"
#include "tiles.h"
#include "trace.h"
#include "units.h"
#include "warpgroups.h"
#include "cuda_on_cpu/called_from.h"
#include "cuda_on_cpu/unset.h"
#include "../guard/space.h"

namespace cuda_on_cpu {

class Recorder;  // recorder.h

// Whether so many bytes may be those of an unset integer or floating-point number (unset.cpp); with fewer than four, any.
inline bool may_be_unset(uintptr_t a, size_t bytes) {
    const void* p = reinterpret_cast<const void*>(a);
    uint32_t word;
    if (bytes < 4) return true;
    memcpy(&word, p, 4);
    return word == uint32_t(unset_value) || word == uint32_t(unset_integer) || word == unset_integer >> 32;
}
// In unset.cpp. From now on unset variables hold what a trace recognises; those with numbers from `first` until `end`
// hold something else; whether a module has any, and whether all hold integers.
void fill_unset();
void choose_unset(uint64_t any, uint64_t integers, unsigned int first, unsigned int end);
std::optional<bool> unset_between(uintptr_t begin, uintptr_t end);
bool is_unset_address(uintptr_t a);
bool is_unset_number(uint64_t bits);  // of 32 bits, or 64
inline bool is_unset_table(uintptr_t a) { return a - reinterpret_cast<uintptr_t>(unset_bytes) < sizeof unset_bytes; }

// What a trace keeps of bytes. Regions that overlap, such as two views of a tensor, share it.
struct Memory {
    uintptr_t begin;
    size_t bytes;
    Shadow shadow;
    std::vector<bool> written;  // by byte; empty where it does not matter
    bool unfinished = false;    // a kernel or a copy has written to it, for which the host has not waited
    std::unique_ptr<StreamCells> of_streams;  // if there are any

    Memory(uintptr_t begin, size_t bytes, size_t element) : begin(begin), bytes(bytes) { shadow.make(bytes, element); }
};

// A tensor, a shared variable, or a variable of the module.
struct Region {
    std::string name, origin;  // origin: its name before a kernel gave it one, "memory from cudaMalloc", if it had one
    Space space = Space::global;
    uintptr_t allocated = 0;  // where the host has called the function that did it; 0 if unknown
    uintptr_t begin = 0, end = 0;
    size_t shift = 0;  // added to addresses where accesses are counted: where a GPU would have placed it, modulo 512
    size_t slack = 0;  // bytes around it in which an access does no harm
    size_t element = 1, alignment = 1;
    size_t output_begin = 0, output_end = 0;  // which of its bytes must all be written
    bool named = true;          // false: a tensor of an extension, named when a kernel gets it,
    bool of_kernel = false;     // and one has got it
    bool poisoned = false;      // when it was allocated
    const char* gone = nullptr;  // why it is no longer there: a local array whose function has returned
    std::shared_ptr<Memory> memory;
    struct {
        uintptr_t code = 0, address = 0;  // 0: none
        size_t bytes = 0;
        Op op = Op::load;
        bool told = false;
    } by_host;  // of a tensor of an extension: the first access by the extension's own code

    void keep_memory() { memory = std::make_shared<Memory>(begin, end - begin, element); }
    bool holds(uintptr_t a, size_t bytes) const { return a >= begin && a + bytes <= end && !gone; }
    bool nearly_holds(uintptr_t a, size_t bytes) const {
        return a + slack >= begin && a + bytes <= end + slack && !gone;
    }
};

// The accesses that a GPU makes of one: a struct takes as many as its alignment makes necessary; memcpy, which nvcc
// compiles for any alignment, goes byte by byte, except for variables whose alignment nvcc knows.
enum class Parts { whole, aligned, bytes };

// One side of a problem.
struct Party {
    uintptr_t code = 0;
    Op op = Op::load;
    uint3 block{}, thread{};
    bool left = false;  // it has ended
    const char* by = nullptr;  // what acts for it asynchronously: "bulk copy"
    const char* at = nullptr;  // the function at which it waits, of the other party
    unsigned int line = 0;     // where it is known without `code`
};

struct Problem {
    std::string kind, text, type, region, origin;
    std::string ended;  // what the thread did that ended the launch, empty if the launch went on
    int line = 0;       // where it is known without `who.code`
    bool apart = false;  // at two calls, whatever the code's lines are
    Party who, other;
    bool has_other = false, in_region = false, has_index = false;
    bool stuck = false;      // no thread of the block could go on
    bool under_way = false;  // an asynchronous copy was
    bool copied = false;     // one side is
    bool one_block = false;  // whatever two threads race at these places, they are of one block
    bool one_warp = false;   // and of one warp
    bool of_block = false;   // both sides are atomic, and one of them for the threads of its block only
    bool both_volatile = false;
    bool unset = false;      // the value is of a variable that has none
    bool certain = false;    // whatever the type of the value (unset.cpp)
    const char* gone = nullptr;  // why the local array is
    bool suspect = false;    // only if the launch does something else with another value in its place,
    bool harmless = false;   // and it does not (again.cpp)
    bool depends = false;       // what the launch does depends on the value,
    unsigned int declared = 0;  // of the variable with this number (unset_number); 0 if not known
    bool in_cluster = false; // it is about shared memory of this block of a cluster
    uint3 owner{};
    uintptr_t allocated = 0;  // of the region
    Space space = Space::global;
    size_t bytes = 0, region_bytes = 0, element = 1, needs = 0;
    size_t full_heap = 0;    // its bytes, if malloc has returned null in this launch
    int64_t offset = 0, index = 0;
    uintptr_t address = 0;
    uint64_t count = 1;
};

// A local array of a thread, or a variable that has arrays, with marks on both sides (locals.h).
struct LocalArray {
    const char* name;
    uintptr_t begin, end;
    size_t element, alignment;  // element: 0 if it is no array
};

struct TracedThread : Requests::Lane {
    uint64_t steps = 0;
    uint32_t map_fence = 0;  // when it last executed one for tensor maps
    const CalledFrom* calls = nullptr;  // that it is in, the innermost first
    uintptr_t updated = 0;   // by its last atomic, until it asks what that returned
    uintptr_t last_read = 0;  // 0 if its last access was no load
    unsigned char depth = 1;
    bool reads_again = false;  // since a check failed: what it had read
    uint16_t at[64] = {};  // the block where it is, by depth of calls
    bool full = false, stopped = false;
    const char* array_type = nullptr;  // an index has left this array; the next access shows which array it is
    int64_t array_index = 0;
    const void* array_code = nullptr;
    std::vector<LocalArray> locals;  // those that live, the newest last
    struct Ended {
        LocalArray array;
        unsigned char depth;
    };
    // Their functions or `{ }` have ended, and nothing has taken their place: a call would, or the same `{ }` again.
    std::vector<Ended> ended;
    void is_back(uintptr_t begin) {
        std::erase_if(ended, [=](const Ended& e) { return e.array.begin == begin; });
    }
    // Constants of an array's initial value may be stored before its constructor runs.
    void is_set(uintptr_t a, size_t bytes) {
        std::erase_if(ended, [=, this](const Ended& e) {
            return e.depth <= depth && a >= e.array.begin && a + bytes <= e.array.end;
        });
    }
    struct {
        uintptr_t address = 0;  // 0: none
        size_t bytes;
        const void* code;
        Region* region;
        Op op;
        bool is_struct;
    } stored;  // the last store to a tensor: what it has stored can be seen when the thread does the next thing
    void begin() {
        stored.address = 0;
        array_type = nullptr;
        locals.clear();
        ended.clear();
        events.clear();
        calls = nullptr;
        steps = map_fence = updated = 0;
        depth = 1;
        full = stopped = false;
        at[1] = block[1] = 0;
    }
};

struct TracedBlock {
    std::vector<TracedThread> threads;
    BlockOrder order;
    std::vector<Region> shared;  // in the order of Block::variables
    bool stopped = false;        // a thread was: what the others then lack is not their mistake
    uint64_t steps = 0;          // of all its threads
    uintptr_t asked[4] = {};     // the last atomics of which a thread has asked what they returned
    unsigned int count_asked = 0;

    // The asynchronous copies that have begun and nobody has waited for, by byte of the arena; empty where there are
    // none. Those of a thread that ends stay: nothing says when they are done.
    struct Flight {
        uint32_t code = 0;  // of the newest, from the start of the module
        uint16_t thread = 0, count = 0;
    };
    std::vector<Flight> flights;
    uint64_t in_flight = 0;  // bytes

    // The barriers in its memory that live, by address: where and when each was initialised.
    struct Barrier {
        Record init;
        const void* code;
        bool reported = false;  // that a thread uses it too early
    };
    std::map<uintptr_t, Barrier> barriers;

    // The last that each thread of a peer has touched of its memory, by rank and thread.
    struct Reach {
        Record record;
        Party who;
        uintptr_t address;
        size_t bytes;
    };
    std::map<uint32_t, Reach> reached;
    TracedProducts products;
};

// What is between the members of structs in the block's shared variable of this number counts as written: a copy of a
// struct reads it.
void set_padding(TracedBlock& b, size_t number, const SharedVariable& variable);

// An asynchronous copy, as the access at one of its ends sees it.
struct Copy {
    size_t bytes;
    uint16_t other = 0;  // as in Event
    uint32_t begun = 0;  // when; known at its end. It is counted when it begins
};

class Trace {
public:
    // What was asked for.
    const long long seed;  // of the order; -1 forward, -2 reversed
    const size_t max_problems;
    const uint64_t max_steps;  // basic blocks that a thread may run
    const bool goes_on;  // when there are as many problems

    std::vector<std::unique_ptr<Region>> regions;
    std::vector<Symbol> symbols;                      // where the module's file says that they are; by address
    std::vector<std::unique_ptr<Region>> variables;   // of the module: __constant__ and __device__
    std::map<std::string, std::string> shared_types;  // of all shared variables seen, by name
    std::vector<Problem> problems, suspects;
    std::map<std::tuple<std::string, uintptr_t, uintptr_t, std::string>, size_t> known;  // problems by kind and place
    uint64_t total = 0, threads = 0;
    uint64_t pulse = 0;  // accesses and basic blocks; another thread reads it (faults.cpp)
    Requests requests;
    std::unique_ptr<StreamOrder> streams;  // if there are any
    bool work_begun = false;               // by the launch, in one of them
    bool meets_blocks = false;             // a fence of the launch was for other blocks
    Tiles tiles;
    Units units;
    Order order;
    std::unordered_map<Block*, std::unique_ptr<TracedBlock>> blocks;
    struct Issuer {
        uint16_t thread;
        const char* by;
        uint3 block;
    };
    std::unordered_map<uint64_t, Issuer> agents;  // by block and number: for whom, and what
    std::vector<unsigned int> thread_order;
    std::vector<uint64_t> block_order;
    bool stopped = false;  // a thread was
    std::vector<std::pair<size_t, Problem>> failed;  // calls of the host's that nobody has asked about; problems before
    bool over = false;     // the launch is to end
    cudaError_t launch_error = cudaSuccess;  // of the launch: what a GPU would answer
    uint64_t absent = poison;  // what a shuffle gets from a lane that has not come,
    uint64_t fresh = poison;   // and what shared memory holds that no thread has written
    bool again = false;  // the launch is made again (again.cpp): nothing is recorded,
    uint64_t noted = 0;  // only how many problems there are
    Problem nothing;     // which one of them is then
    uint64_t first_blocks = 0, enough = 0;     // of a launch, that have ended before `pulse` was this
    bool divided = false;                      // a whole number by zero, while the launch was made again
    uint64_t clock = 0, clock_begins = 0;      // what clocks count: `pulse`, without launches that are made again
    std::map<const char*, uint64_t> launches;  // of each kernel
    std::shared_ptr<Beginning> beginning;      // of the last launch that may be made again
    std::shared_ptr<Recorder> recorder;  // for a player; usually none
    dim3 grid;  // of the last launch
    const void* last_code = nullptr;  // of the last access or step
    Region local;                     // what left_local has found

    uintptr_t stack_begin = 0, stack_end = 0;    // of this CPU thread
    uintptr_t arguments_begin = 0, arguments_end = 0;  // the kernel's, of this launch
    bool unfinished = false;                     // the host has not waited for a launch or a copy
    std::vector<std::pair<uintptr_t, uintptr_t>> read_later;  // the host's memory that such copies read
    uintptr_t module_begin = 0, module_end = 0;  // the code that runs, and what it was loaded with
    std::vector<std::pair<uintptr_t, uintptr_t>> writable;  // of that
    uintptr_t constant_begin = 0, constant_end = 0;

    Trace(long long seed, size_t max_problems, uint64_t max_steps, bool goes_on)
        : seed(seed), max_problems(max_problems), max_steps(max_steps), goes_on(goes_on) {
        fill_unset();
        choose_unset(0, 0, 0, 0);
    }
    // `copy`: the asynchronous copy that it is one end of.
    void access(const void* p, size_t bytes, Op op, const void* code, Strength strength = Strength::weak,
                Parts parts = Parts::whole, const Copy* copy = nullptr);
    void copies(void* to, const void* from, size_t bytes, Parts parts, bool apart, const void* code);  // `apart`: memcpy
    void piece(Block& b, TracedThread& t, uintptr_t a, size_t bytes, Op op, const void* code, Strength strength,
               Region* region, const Copy* copy, bool in_parts);
    bool ordered(const Record& x, const Record& me, const BlockOrder& b, const Copy* copy) const;
    void race(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, Region* region, const Record& before,
              Strength strength = Strength::weak, const Copy* copy = nullptr);
    void races_streams(Region& region, uintptr_t a, size_t bytes, Op op, Party who);
    Party agent_party(const Block& b, const Record& record) const;  // of what an agent did
    void against_agent(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, Region* region,
                       const Record& before, bool unwritten);
    // A thread of block `b`, or what acts for it, touches the shared memory of a peer.
    void reaches(Block& b, Block& peer, uintptr_t a, size_t bytes, const Party& who, unsigned int thread,
                 const Region& region);
    void touches_register(Block& b, uintptr_t a, size_t bytes, Op op, const void* code);
    void touches_barrier(Block& b, uintptr_t a, size_t bytes, Op op, const void* code);
    bool in_flight(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, Region* region, bool uninitialized);
    void uninitialized(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, Region* region, bool suspect);
    void stores(TracedThread& t, uintptr_t a, size_t bytes, Op op, const void* code, Region* region, bool is_struct);
    void look_at_stored(Block& b, TracedThread& t);
    void reads_local(Block& b, uintptr_t a, size_t bytes, const void* code);
    void left_in_flight(Block& b);
    void step(const void* code);
    void asked();
    void beat() { __atomic_store_n(&pulse, pulse + 1, __ATOMIC_RELAXED); }
    void call();
    void come_back();
    void check_failed();
    void outside_array(const char* type, int64_t index, const void* code);
    void misaligned(const void* p, size_t needs, Op op, const void* code);
    void undefined(std::string text, uint64_t bits, const void* code);
    void negative_size(const char* function, size_t bytes, const void* code);
    void through_ldg(uintptr_t a, size_t bytes, const void* code);
    [[noreturn]] void updates_local(Block& b, size_t bytes, const void* code);
    void not_meant_for(Block& b, const Region& region, const char* text, const void* code);
    void tensor_by_host(Region& region);
    void of_host(const void* address, size_t bytes, Op op, const void* code, Strength strength);
    bool out_of_bounds(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, Region* region,
                       const char* text = "");
    void tell_array(Block& b, Region* region, uintptr_t a, size_t bytes, Op op);
    [[gnu::always_inline]] uint16_t site(size_t bytes, Op op, const void* code, const Region& region, const Copy* copy) {
        return requests.site(reinterpret_cast<uintptr_t>(code), region.space, op, bytes, copy ? copy->bytes : 0,
                             region.name, region.begin + region.shift, region.element);
    }
    uint16_t keep(Block& b, TracedThread& t, uintptr_t a, size_t bytes, Op op, const void* code, const Region& region,
                  const Copy* copy);
    Region* variable_at(uintptr_t a, size_t bytes);
    const Symbol* symbol_at(uintptr_t a);
    void reads_table(Block& b, uintptr_t a, uintptr_t object, const void* code);
    Region* left_local(Block& b, uintptr_t a, size_t bytes);
    void local_ends(Block& b, const LocalArray& array, const void* code);
    void outside_object(const void* p, Op op, const void* code);
    void report_failed();
    void make_room(Block& b, TracedThread& t);
    void drain(Block& b, unsigned int warp, bool all);
    Region* find(Block& b, uintptr_t a, size_t bytes, bool& ignore);
    Region* find_shared(Block& b, uintptr_t a, size_t bytes);
    Region* nearest(uintptr_t a, uintptr_t place);
    void look_at_module(const void* code);
    Problem& add(Problem problem);
    [[noreturn]] void stop_thread(Block& b, cudaError_t error = cudaErrorIllegalAddress);
    void fails(cudaError_t error);
    std::string json() const;
};

// Whether a thread of a block is at work, not the host's own code or the engine on the way to the next thread.
inline bool in_thread() { return here && block().running && block().running->has_thread; }

inline uint3 block_place(dim3 grid, uint64_t i) {
    return {unsigned(i % grid.x), unsigned(i / grid.x % grid.y), unsigned(i / grid.x / grid.y)};
}

inline uint3 thread_place(const Block& b, unsigned int i) {
    return {i % b.block_dim.x, i / b.block_dim.x % b.block_dim.y, i / b.block_dim.x / b.block_dim.y};
}

inline Party party(const Block& b, const Fiber& f, const void* code, Op op = Op::load) {
    return {reinterpret_cast<uintptr_t>(code), op, b.block, f.thread, false};
}
inline Party waiting(const Block& b, const Fiber& f) {
    Party p = party(b, f, f.code);
    p.at = f.function;
    return p;
}
inline Party gone(const Block& b, unsigned int thread) {
    return {0, Op::load, b.block, thread_place(b, thread), true};
}

// A thread waits for another that waits elsewhere or has ended; `stuck` if that is why the launch ends.
void divergence(Trace& t, const Block& b, const Fiber& waits, const Party& other, bool stuck = false,
                unsigned int line = 0);

void place_in(Problem& p, const Region* r, uintptr_t address);  // where in the region, if in one
void object_is_made(const void* object);                        // with virtual functions (objects.cpp)

}  // namespace cuda_on_cpu
