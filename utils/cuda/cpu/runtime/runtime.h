// What the parts of the runtime know of each other: runtime/, host/ and trace/ include this, kernels do not.
//
// A launch runs on one or more workers, each a thread of the CPU. A worker runs one block after another; in a
// cooperative launch it keeps several, since they may wait for each other. The threads of a block take turns: a thread
// that has to wait is left on its own stack, a fiber.
#pragma once

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_runtime.h"
#include "arena.h"
#include "threads.h"
#include "warpgroups.h"
#include "../guard/guard.h"
#include "../trace/flow.h"

namespace cuda_on_cpu {

class Trace;         // trace/state.h
struct TracedBlock;
struct Cluster;      // clusters.h
struct Turns;        // turns.h

struct Worker;

// The running block. Device code finds its Position in `here`, which points to one of these.
struct Block : Position {
    Worker* worker;
    uint64_t number;  // in the grid, x first
    Fiber* running = nullptr;
    Queue ready, aside, at_barrier, at_grid, at_trace, at_cluster;  // aside: go on when no other can
    unsigned int alive = 0;           // threads that have not ended, begun or not
    unsigned char unchanged = 0;      // by atomics of its threads, how often, modulo 256
    unsigned int fences = 0;          // for other blocks, where they take turns
    unsigned int in_step = 0;         // threads that wait for their warp to make an access in step
    std::map<const void*, PhaseBarrier> phase_barriers;  // by address
    std::vector<NamedBarrier> named_barriers;            // PTX's 16 and the tiles', once a thread has come to one
    std::vector<char> tile_slots;                        // of each thread, once a tile of several warps uses them
    std::vector<unsigned int> registers;  // of each thread, once one has called setmaxnreg,
    size_t free_registers = 0;            // what threads have given back,
    Queue at_registers;                   // and those that wait for some
    std::vector<BulkTransfer> unread;  // stores of threads that have ended without waiting until their source was read
    size_t sum = 0, last_sum = 0;     // of barrier_sum: of those that have arrived, and of the barrier before
    std::vector<Warp> warps;          // once the block is watched
    std::vector<std::unique_ptr<Warpgroup>> warpgroups;  // those that have begun products; none as a rule
    bool done = false;
    TracedBlock* traced = nullptr;    // what the trace keeps of it
    Cluster* cluster = nullptr;       // it runs together with the others of this,
    unsigned int rank = 0;            // among which it has this place
    std::shared_ptr<Cluster> own_cluster;  // in a launch without clusters
    Turns* turns = nullptr;           // that it takes with other blocks, if it does
    bool its_turn = false, waits_for_grid = false;

    struct Variable { const SharedVariable* variable; size_t offset; };
    std::vector<Variable> variables;  // the shared memory
    size_t static_bytes = 0, dynamic_bytes = 0, static_end = 0;
    bool uses_dynamic = false;        // its kernel declares dynamic shared memory
    SharedVariable dynamic{};         // the one dynamic variable, where a trace has met it
    Arena arena;

    Warp& warp_of(unsigned int thread) { return warps[thread / 32]; }
};

// waits: the blocks that it takes turns with come first; in_vain: and this one cannot go on at all.
enum class End { none, done, at_grid, left, waits, in_vain };

// Why a launch ended early: a signal's number, or one of these.
enum Fault { no_fault = 0, too_much_shared = -1, stuck = -2, wrong_mask = -3, assertion = -4, trapped = -5, no_grid = -6,
             host_function = -7, endless = -8, wrong_copy = -9, smashed = -10, thrown = -11, wrong_free = -12,
             no_room = -13, wrong_barrier = -14,
             lacks_arrivals = -15, wrong_registers = -16, wrong_cluster = -17, wrong_product = -18,
             wrong_alignment = -19 };

// A number that a GPU computes differently (numbers.cpp), and which thread computed it, where.
struct Difference {
    uint64_t block_number;
    uint3 thread, block;
    std::string what;
    const char* file;
    uint32_t line;
};

// What one thread of the CPU needs to run blocks. Kept for the next launch, since the stacks are worth keeping.
struct Worker {
    void (*run_threads)(void*);
    void* kernel;
    std::vector<std::unique_ptr<Fiber>> fibers;  // all that were ever needed at once
    std::vector<Fiber*> idle;
    std::vector<std::unique_ptr<Block>> blocks;  // one, or all of this worker's in a cooperative launch
    jmp_buf scheduler;
    Trace* trace = nullptr;
    std::unique_ptr<Flow> flow;  // of a kernel whose warps run in step
    bool cooperative = false;
    const std::atomic<bool>* over = nullptr;  // of the launch: it ends early, as after a fault
    const Launch* launch = nullptr;
    std::string printed;  // by the block that runs
    size_t left_out = 0;  // bytes of what it printed
    std::optional<Difference> difference;  // the first of this launch

    // The learner's own code runs, which may be left at any point; within the runtime's functions it is 0.
    volatile sig_atomic_t in_kernel = 0;
    bool heap_was_full = false;  // malloc has returned null in this launch
    int fault = no_fault;
    std::string fault_text;  // what the reason needs beside its number
    dim3 wanted_cluster{0, 0, 0};  // of a kernel that finds that it needs clusters
    std::string refusal;           // of a launch that CUDA would refuse, as a thread finds
    const char* fault_file = nullptr;  // of a failed assertion or a misaligned access, with its line
    int fault_line = 0;
    const char* fault_address = nullptr;
    const char* fault_verb = "touches";  // what the thread does there: "reads" or "writes", if the processor says so
    const char* fault_stack = nullptr;   // the end of its stack then, where the processor says so
    enum Address { named, misaligned, far } fault_kind = named;
    const char* fault_code = nullptr;    // the instruction, likewise
    pthread_t cpu_thread;
    std::unique_ptr<char[]> signal_stack;
};

// Where dynamic shared memory begins in a block's arena. In a trace there is room between all shared variables, so
// that a step outside of one is seen. A matrix descriptor has 18 bits for an address, a window of 256 KB: dynamic memory
// ends where a window does, and static memory is in the rest of the first one.
constexpr size_t traced_gap = 1024, shared_window = 256 * 1024;
inline size_t dynamic_offset(const Worker& w, size_t dynamic_bytes) {
    const size_t rest = shared_window - (dynamic_bytes + 1023) / 1024 * 1024;
    return w.trace ? 2 * shared_window + rest : rest < 48 * 1024 ? rest : 48 * 1024;
}

inline Block& block() { return *static_cast<Block*>(here); }

// ---- fibers.cpp
void set_up_block(Worker& w, Block& b, uint64_t number, const Launch& launch);
End run_block(Worker& w, Block& b);        // until it ends or waits for the grid
[[noreturn]] void leave_block(Worker& w);  // for good: the stacks of its threads are not unwound
void leave_if_over(Block& b);            // where another worker's block has faulted, which it may wait for
void enter_kernel(Worker& w);              // back to the learner's code, unless an interruption came meanwhile
[[noreturn]] void fail(int fault, std::string text = "");
void wait_for_trace(Queue& queue);         // until the trace lets the threads of `queue` go on

#pragma GCC visibility push(hidden)  // called at every barrier: found without a look-up
// The running block. Never inlined: an idle fiber may wake on another CPU thread, so nothing read from `here` may
// outlive a switch.
__attribute__((noinline)) Block& my_block();
// Runs other threads. `me`, the running one, has set what it waits for, and goes on when another has put it among the
// ready.
void wait(Fiber* me);
void begin_watching(Block& b);
// As long as no thread waits, they run one after the other and no list is kept. This is where the list begins.
inline void watch(Block& b) {
    if (!b.watched) begin_watching(b);
}

// ---- barriers.cpp
Fiber* enter_runtime(const char* function, const void* code);  // the calling thread, which may wait
size_t wait_for_block(size_t value, BarrierUse use, const char* name, const void* code);  // as barrier_sum does
void open_barrier(Block& b);
void check_meetings(Block& b, unsigned int warp);  // of a warp's lanes, after one of them has ended
// The lanes of a warp meet, and the last to arrive does `work` with what each of them has brought: nullptr for one that
// has ended. They go on when it is done. `name` is CUDA's, for messages.
using WarpWork = void (*)(void* const (&brought)[32], unsigned int came);
void meet_for(WarpWork work, void* brought, const char* name, const void* code);
bool release_active(Block& b);  // lets threads go on that wait for what can no longer change; false if there are none

// ---- named_barriers.cpp
void check_barrier_0(Block& b, Fiber& f);  // a thread comes to it without a number of threads, and others may have
void named_thread_ends(Block& b, unsigned int warp);
Fiber* one_that_waits_for_a_named(const Block& b, std::string& why);  // where none can go on

// ---- copies.cpp
void do_copies(Fiber& of, unsigned int group);  // of a thread, up to a group of them

// ---- phases.cpp
void do_copies_for_phases(Block& b, Fiber* of);  // all that barriers wait for, of a thread that ends
Fiber* one_that_waits_for_a_phase(Block& b, std::string& why);  // where none can go on
// The barrier at an address, in this block's shared memory or in a peer's; nullptr if there is none.
PhaseBarrier* barrier_at(const void* address);
void phase_counts(BulkTransfer&& transfer);  // at its barrier
bool release_polls(Block& b);  // lets threads go on that ask for the end of a phase; false where they do so in vain
bool polls_in_vain(Block& b);  // those that have stepped aside only sleep before they ask again

// ---- warpgroups.cpp
Fiber* one_that_waits_for_its_warpgroup(const Block& b, std::string& why);  // where none can go on

// ---- proxies.cpp
Fiber* one_that_waits_for_registers(const Block& b, std::string& why);  // where none can go on

// ---- guard_pages.cpp
// The parts of this memory that are not such pages.
std::vector<std::pair<uintptr_t, uintptr_t>> outside_guards(uintptr_t begin, uintptr_t end);

// ---- in_step.cpp
bool release_in_step(Block& b);  // lets each warp make its next access; false if there are none
#pragma GCC visibility pop
void step_in_step(const void* code);  // the running thread begins a basic block,
void call_in_step(int deeper);        // calls a function (1) or returns from it (-1),
void wait_in_step(const void* address, const void* code, bool reads);  // or is about to touch volatile memory

// ---- refusals.cpp
std::string why_refused(const Launch& launch);  // empty if it is not
std::string why_too_many_registers(const Launch& launch);
std::string why_not_together(const Launch& launch);  // its blocks, of a cooperative launch; empty if they fit
// Why its blocks cannot have so much shared memory; empty if they can. Without nvcc, what is static shows only while a
// kernel runs.
std::string why_too_much_shared(const Launch& launch, size_t static_bytes);
// A launch, of the kernel that is called `name`; false if there is no reason to.
bool refuse(const char* name, const Launch& launch, const std::string& why, cudaError_t error);

// ---- launch.cpp
constexpr size_t most_printed = 16 << 20;  // bytes of a launch's output; CUDA keeps 1 MB of it

// ---- kernel.cpp
std::string demangled(const char* type);

// ---- workers.cpp
std::unique_ptr<Worker> take_worker();
void give_back(std::unique_ptr<Worker> worker);
bool drop_idle_workers();  // those kept for a later launch, with their stacks; false if there were none
struct Workers {           // that a launch gets, while this lives
    uint64_t count, stacks;
    Workers(uint64_t blocks, uint64_t block_threads);
    ~Workers();
    Workers(const Workers&) = delete;
};
void forget_workers();  // of the process that this one is a fork of

// ---- shared.cpp
std::string name_in_shared(const Block& b, const void* address);  // 'full[1]', for messages
std::string beside_shared(const Block& b, const char* address);   // where around it that is, for messages
void prepare_shared(Worker& w, Block& b, size_t dynamic_bytes, void (*run_threads)(void*));  // for a launch
void poison_shared(Block& b);  // before its threads begin: what they read before they write it is NaN
// About a write beside the block's variables, empty if there was none: a trace, which sees each, is not asked.
std::string shared_damage(const Block& b, const char* kernel);

// ---- fork.cpp
struct Mutex : std::mutex {  // free in the child of a fork; it lives forever, and no thread holds two at once
    Mutex();
};

// ---- helpers.cpp
class Helpers {  // other threads of the CPU, for one launch
public:
    explicit Helpers(std::function<void(uint64_t)> work);
    ~Helpers();                  // when all calls are answered
    void call(uint64_t number);  // has one of them call work(number); throws where there is no room for another thread
    void call_off();             // what none has begun to answer

private:
    struct Room;
    static Room* room;
    const std::function<void(uint64_t)> work;
    fenv_t arithmetic;  // of the thread that launches: rounding, denormals;
    sigset_t signals;   // and those that it blocks
    size_t at_work = 0;
    friend void forget_helpers();
};
void forget_helpers();  // in the child of a fork: they are not there

// ---- faults.cpp
extern std::atomic<bool> interrupted;
struct Handlers {  // while one of these lives, signals come to us first
    Handlers();
    ~Handlers();
};
void forget_launches();  // in the child of a fork: those of threads that are not there
// A signal that comes because a stack has overflowed needs another stack to run on. Those that end Python unless they are
// handled must arrive, even in a thread of Python that blocks all signals.
struct SignalStack {
    static constexpr size_t bytes = 64 * 1024;
    stack_t before;
    sigset_t blocked;
    explicit SignalStack(char* memory);
    ~SignalStack();
};
constexpr int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
constexpr int look_signal = SIGURG;  // to a worker; harmless to programs that do not use it
class Watch {  // over the kernel that this CPU thread traces: sends `look_signal` if it loops without a sign of life
public:
    explicit Watch(const Trace& trace);
    ~Watch();

private:
    void look();
    const Trace& trace;
    pthread_t watched;
    std::mutex mutex;
    std::condition_variable changed;
    bool over = false;
    std::thread thread;  // begins last, when all else is there
};
struct AtWork {  // while one of these lives, its worker hears of an interruption
    std::atomic<Worker*>* slot = nullptr;
    explicit AtWork(Worker& w);
    ~AtWork();
};
bool ends_process(int signal);  // it would, now: nobody handles it, or only what handles faults of kernels

// ---- outside.cpp
void watch_outside();  // from now on, except in a program
void put_back_outside(const struct sigaction& other);  // what handled SIGSEGV before the launches, or what asks it last
// Whether code outside of launches may go on after a fault there: the address has memory now, around that of cudaMalloc.
bool opens_outside(const char* address, const void* context);

// ---- messages.cpp
std::string block_name(uint3 block, const char* kernel);  // 'block (0, 0, 0) of ...'
std::string thread_name(uint3 thread, uint3 block, const char* kernel);  // 'thread (0, 0, 0) of ...'
std::string what_ended_it(const Worker& w);  // what the thread did, as in "divides a whole number by zero"
std::string fault_message(const char* kernel, const Worker& w);  // the whole sentence, which begins as CUDA's own does
cudaError_t error_of(const Worker& w);  // what a GPU answers to the fault
bool find_tensor(const void* address, Place& found);  // or allocation that holds it or is beside it, where guarded
std::string beside(const Place& p);  // '4 bytes before the start of a ...'
void leave_callback();  // if this CPU thread is in one that a stream calls: host/streams.cpp
bool is_host_address(const char* address);  // what host code gets for a __device__ function's: host/kernels.cpp
std::string freed_memory(const void* address);  // 'memory that was freed: ...', empty for any other address
// About a write beside a tensor, empty if there was none; `alone`: no other kernel has run at the same time.
std::string damage_message(const char* kernel, bool alone);

// ---- numbers.cpp
void note(const char* kernel, const Difference& found);  // Python warns of it
std::string also(const char* kernel, const Difference& found);  // for the message of a fault, perhaps its consequence
extern bool in_program;  // a whole program, without Python and torch
extern const void* program_data;  // something that the executable holds

// ---- division.cpp
bool quotient_overflows(const void* context);  // of the signal that a division has raised: it was not by zero
bool divide_as_gpu(void* context);  // then goes on behind it; false for any other division

// ---- trace/regions.cpp
struct Library {  // where it lies in memory
    uintptr_t begin = 0, end = 0;
    bool holds(const void* p) const { return begin <= uintptr_t(p) && uintptr_t(p) < end; }
};
Library library_around(const void* address);  // not in a handler of signals

// ---- host_call.cpp
bool in_host_call();                     // this CPU thread runs an extension's function, and no kernel
bool in_host_thread();                   // the same in a std::thread that the function has begun
bool would_end_python();                 // what ends this process: the function runs in it, not in a child of it
bool is_host_code(const void* code);     // in such a call, and the code is the extension's
bool is_runtime_code(const void* code);
struct UntracedLaunch { std::string kernel; const void* code = nullptr; };  // by another thread than the traced one
void note_untraced(const char* kernel, const void* code);
struct Moving {  // while one of these lives, a fault is due to addresses that a host call has given: it ends the call
    Moving();
    ~Moving();
};
bool moves_for_host();
bool is_stream(cudaStream_t stream);  // that has not been destroyed: streams.cpp
void write_report();  // of a traced program that ends: program.cpp
void tell_of_fault(const char* message);  // on stderr: program.cpp
void note_untraced_by_program(const char* kernel, const void* code);
const void* place_of_host(const char* address, const void* context);  // where it was, like a return address
std::string what_host_did(int signal, const char* address, const void* context);  // that raised it: faults.cpp
struct DeviceAccess {  // while none of these lives, a program's host code cannot touch the device's memory: memory.cpp
    DeviceAccess();
    ~DeviceAccess();
};
const char* verb(const void* context);  // what an access that faulted does, as 'reads': faults.cpp
// Ends the call; `what` its function did, empty if stopped, and where a signal has found it, like a return address.
[[noreturn]] void leave_host_call(const std::string& what, const void* place = nullptr);

bool host_threads_run();  // of the learner's own: host_call.cpp

class GuardedMemory;
GuardedMemory& kernels_heap();  // by malloc and new in kernels: heap.cpp
size_t kernels_heap_limit();    // bytes: host/device.cpp
void forget_heap();             // after a fault, when a GPU's heap is gone: what it holds no longer counts

// ---- host/
GuardedMemory& allocated();  // by cudaMalloc and the like
std::pair<uintptr_t, uintptr_t> own_stack();  // of this CPU thread: where it begins and ends
void trace_allocations();    // those that live are known to this CPU thread's trace, which begins
size_t machine_bytes();     // of memory
// For cudaDeviceReset:
void forget_allocations();
void forget_streams();  // and events
void forget_shared_limits();
// Bytes of dynamic shared memory that cudaFuncSetAttribute allows a kernel, if it was asked; of nullptr, for a kernel that
// is not known, the most that any was allowed: host/kernels.cpp.
std::optional<size_t> allowed_shared(const void* kernel);

}  // namespace cuda_on_cpu
