// A trace as the runtime sees it: the runtime reports what happens in a launch (events.cpp), and the compiler's hooks
// report every access (hooks.cpp, accesses.cpp).
#pragma once

#include <atomic>
#include <vector>

#include "../runtime/runtime.h"
#include "cuda_on_cpu/ptx/fragments.h"

namespace cuda_on_cpu {

struct TensorMap;  // runtime/boxes.h

struct StreamId {
    unsigned int number;  // 0: the legacy stream
    bool blocking;        // it waits for the legacy stream, and that for it
};
using StreamTimes = std::vector<uint32_t>;  // by the number of a stream: its last work that is over

extern __thread Trace* tracing CUDA_ON_CPU_FAST_TLS;  // of this CPU thread; none as a rule

uint64_t trace_pulse(const Trace&);  // changes whenever the kernel has done something
bool trace_has_code(const Trace&, const void* place);  // of the kernel
void trace_refused(Trace&, const char* kernel, const std::string& why, const void* code);
void trace_untraced(Trace&, const UntracedLaunch& launch);  // if there was one
void trace_failed(Trace&, cudaError_t error);  // a function of the host's side, called by the learner's code
void trace_asked(Trace&);                      // whether one has failed
size_t trace_room(const Trace&, const void* p);  // bytes to the end of the tensor that holds `p`; SIZE_MAX if none does
void trace_launch_begins(Trace&, const char* kernel, const Launch&, void (*code)(void*));
void trace_launch_ends(Trace&);
// In again.cpp: a launch begins, which may have to be made again; it has ended and has printed this. `make` runs so many
// of its blocks, the first and the last one, and returns what they print.
struct Beginning;
std::shared_ptr<Beginning> trace_beginning(Trace&, const char* kernel, const void* code);
void trace_again(Trace&, const Beginning&, const Launch&, const std::string& printed,
                 const std::function<std::string(uint64_t)>& make);
long long trace_nanoseconds(Trace&);  // what a kernel's clocks show
void trace_fault(Trace&, Worker&);  // the block was left because of it
bool trace_is_full(const Trace&);   // as many problems as were asked for: the launch ends
uint64_t trace_block(const Trace&, uint64_t i, uint64_t blocks);  // which block comes as number i
void trace_block_begins(Trace&, Block&);
void trace_block_ends(Trace&, Block&);
unsigned int trace_thread(const Trace&, unsigned int i);  // which thread of the block begins as number i
void trace_thread_begins(Trace&, Block&, Fiber&);
void trace_thread_ends(Trace&, Block&, Fiber&);
void trace_barrier_opens(Trace&, Block&);  // all of block.at_barrier go on
void trace_meeting(Trace&, Block&, unsigned int warp, unsigned int came);  // these lanes go on
// Of PTX's barriers: a warp comes, all its lanes that have not ended; all that wait at one go on.
void trace_named_arrives(Trace&, Block&, const NamedBarrier&, unsigned int warp);
void trace_named_opens(Trace&, Block&, const NamedBarrier&);
void trace_block_waits_for_grid(Trace&, Block&);
void trace_grid_is_stuck(Trace&, Block& waits, Block& ended);
void trace_grid_barrier_opens(Trace&);
void trace_stuck(Trace&, Block&);  // no thread of the block can go on
void trace_fence(Trace&, Block&, bool of_block);
bool trace_meets_blocks(const Trace&);  // whether a fence of this launch was for other blocks
// Of barriers in memory: the running thread arrives, a phase ends, and the running thread knows that it has ended.
void trace_phase_arrives(Trace&, Block&, const void* barrier);
void trace_phase_ends(Trace&, Block&, const void* barrier, const PhaseBarrier&);
void trace_phase_waited(Trace&, Block&, const void* barrier);
// The running thread initialises one, where there is one already or not, makes it invalid, or uses it.
void trace_barrier_again(Trace&, Block&, const void* barrier, const void* code);
void trace_barrier_begins(Trace&, Block&, const void* barrier, const void* code);
void trace_barrier_ends(Trace&, Block&, const void* barrier, const void* code);
[[noreturn]] void trace_barrier_missing(Trace&, Block&, const void* barrier, const char* function, const void* code);
void trace_barrier_used(Trace&, Block&, const void* barrier, const char* function, const void* code);
// For a recording: what has become of a barrier in the memory of `Block&`, in this phase. `count`: the arrivals that it
// expects from now on (begins, phase_ends) or that have come (arrives), the phase that a thread waits for (waits), 1 or 0
// before and after cp.async copies that it waits for land (copies_land). `bytes`: announced; come, where it is negative.
enum class BarrierChange : uint8_t { begins, ends, arrives, waits, phase_ends, copies_land, copy_begins, copy_lands };
void trace_barrier_changed(Trace&, Block&, const void* barrier, BarrierChange, uint64_t phase, int64_t count, int64_t bytes);

// ---- asynchronous.cpp: what the async proxy does. `Block&` is the block whose shared memory it is, or that counts.

// The running thread issues a transfer; its bytes have come; its thread waits until its source has been read, or for all of
// it; its thread ends without that; its block ends before anybody has asked for the phase.
void trace_bulk_begins(Trace&, Block&, BulkTransfer&);
void trace_bulk_lands(Trace&, Block&, const BulkTransfer&);
void trace_bulk_read(Trace&, Block&, const BulkTransfer&);
// Of each instruction of the copy engine (units.cpp): it moves bytes, or a box at `at`, to or from shared memory, and to
// the blocks of `mask`, if that is not 0.
void trace_bytes_copied(Trace&, Block&, const void* to, const void* from, unsigned int bytes, unsigned int mask,
                        const char* name, const void* code);
void trace_box_copied(Trace&, Block&, const TensorMap&, const int32_t* at, const void* shared, bool loads,
                      unsigned int mask, const char* name, const void* code);
void trace_bulk_waited(Trace&, Block&, const BulkTransfer&);
void trace_bulk_unread(Trace&, Block&, const BulkTransfer&);
void trace_bulk_unwaited(Trace&, Block&, const BulkTransfer&);
// Of tensor maps (boxes.cpp): the running thread begins to move a box to or from an address of shared memory, with a map
// at an address; a map that a kernel has written may be used by it from now on.
void trace_box(Trace&, Block&, const TensorMap&, const void* shared, bool loads, const void* code);
void trace_map(Trace&, Block&, const void* map, const void* code);
void trace_map_fence(Trace&, Block&);
void trace_proxy_fence(Trace&, Block&, int proxy);  // a Proxy (races.h); -1: of shared and of global memory
// Reads of shared memory through the async proxy that go on after the instruction, such as those of wgmma. Call it for
// each piece of an operand when the instruction is issued. `issuer` is a thread of the block that stands for all that
// issue it together: of a warpgroup, the first. `knows` is the thread whose waits and barriers must have ordered what
// was written there. `by` names the reader in sentences: "wgmma". Returns a time:
uint32_t trace_async_reads(Trace&, Block&, unsigned int issuer, unsigned int knows, const void* address, size_t bytes,
                           const char* by, const void* code);
// A thread has waited for all those of `issuer` that began up to a time. Call it for each thread that waits.
void trace_async_waited(Trace&, Block&, unsigned int issuer, unsigned int thread, uint32_t begun);

// Between the two, copies of a thread are done as if when it arrived. The first gives the time to go back to.
uint32_t trace_landing(Trace&, Block&, const void* barrier, unsigned int thread);
void trace_landed(Trace&, uint32_t now);
// An asynchronous copy reads and writes at some time between the two. The first gives the time at which it began.
uint32_t trace_copy_begins(Trace&, Block&, const void* to, const void* from, size_t bytes, size_t zeros,
                           const void* code);
void trace_copy_ends(Trace&, const void* to, const void* from, size_t bytes, size_t zeros, const void* code,
                     uint32_t begun);
uint64_t trace_fresh_shared(const Trace&);  // what shared memory holds that no thread has written
// A shuffle reads a lane that has not come, of the mask or not. What the trace gives it.
uint64_t trace_absent_lane(Trace&, Block&, unsigned int lane, bool in_mask, const char* function, const void* code);
// Of clusters: their blocks begin, the running thread arrives at the barrier, it opens, the running thread has waited; and
// a thread ends, after it has waited for what it has arrived at.
void trace_cluster_begins(Trace&, Cluster&);
void trace_cluster_arrives(Trace&, Block&, bool releases);
void trace_cluster_barrier_opens(Trace&, Cluster&);
void trace_cluster_waited(Trace&, Block&);
void trace_cluster_thread_ends(Trace&, Block&, Fiber&, bool waited);
void trace_access(Trace&, const void* address, size_t bytes, Access, const void* code);  // that no hook sees
// A row of 16 bytes of shared memory, which ldmatrix or stmatrix moves; `transposed`: the lanes hold columns.
void trace_row(Trace&, const void* row, Access, bool transposed, const void* code);
// The lanes of a warp multiply: once for all of them.
void trace_product(Trace&, Block&, const ptx::Product& product, const char* name, const void* code);
// What a thread brings to a product of its warp.
void trace_operand(Trace&, Block&, const void* operand, size_t bytes, const char* function, const void* code);
void trace_misaligned(Trace&, const void* address, size_t needs, Access, const void* code);
[[noreturn]] void trace_wrong_stride(Trace& t, const void* tile, std::string text, Access access, const void* code);
void trace_arguments(Trace&, const void* arguments, size_t bytes);  // of the launch that begins
cudaError_t trace_error(const Trace&);  // what a GPU would answer to the launch that has ended
std::string trace_name_of(Trace&, const void* p);  // of the tensor that it is in; empty if it is in none
void trace_before_free(Trace&);     // the running thread frees memory: what it has stored there is there still
void trace_finished();              // the host has waited: what kernels have written is there
extern std::atomic<uint64_t> waits_of_host;  // how often
void trace_unfinished(void* to);    // a copy to there, for which the host has not waited
void trace_read_later(const void* from, size_t bytes);  // the same, from there
// Of streams (stream_order.h), in the host's code. Work of this name begins in one, or is a part of work that has begun
// (false); it reads or writes memory; it ends.
bool trace_work_begins(StreamId, const std::string& name, const void* place = nullptr);
void trace_moves(const void* p, size_t bytes, Access);
void trace_objects_move(const void* to, const void* from, size_t bytes);
void trace_work_ends();
StreamTimes trace_times(StreamId);  // of the work that is in the stream now
void trace_stream_waits(StreamId, const StreamTimes&);
void trace_host_waits(const StreamTimes&);
void trace_host_waits_for_all();
bool streams_exist();             // besides the legacy one: host/streams.cpp
StreamId stream_id(cudaStream_t);
uintptr_t caller();  // which place of the learner's code, of an extension or a program, has called what is running
// The host's code does what ends its call or the program; `place`: where a signal has found it, like a
// return address.
void trace_host_error(Trace&, const std::string& what, const void* place = nullptr);
// Where this CPU thread traces. `code`: where the host has called the function, 0 if unknown.
void trace_allocated(void* base, size_t bytes, const char* name, uintptr_t code = 0);
bool trace_release(Trace&, Block&);  // moves threads that waited for the trace to block.ready; whether there were any

}  // namespace cuda_on_cpu
