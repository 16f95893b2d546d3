// Asynchronous copies (cuda_pipeline.h): done when a thread waits for them, and not before. A thread that begins more
// and more without waiting has the oldest done early, which CUDA allows: what is kept of them must not fill the memory.
#include <cstring>

#include "cuda_pipeline.h"
#include "runtime.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

static constexpr size_t most_copies = 4096;  // of a thread at a time: 64 KB of shared memory, 16 bytes each

// The oldest of the running thread's. Afterwards the learner's code runs again.
static void do_copy(Worker& w, Fiber& me) {
    Fiber::Copy c = me.copies.front();
    w.in_kernel = 0;
    me.copies.pop_front();
    enter_kernel(w);
    if (w.trace) trace_copy_ends(*w.trace, c.to, c.from, c.bytes, c.zeros, c.code, c.begun);
    memcpy(c.to, c.from, c.bytes - c.zeros);
    memset(static_cast<char*>(c.to) + c.bytes - c.zeros, 0, c.zeros);
}

void async_copy(void* to, const void* from, size_t bytes, size_t zeros) {
    const void* code = __builtin_return_address(0);
    Worker& w = *block().worker;
    w.in_kernel = 0;
    watch(block());  // the fiber knows its thread
    block().running->code = code;
    for (const void* address : {from, static_cast<const void*>(to)})
        if (size_t(address) % bytes) {
            bool loads = address == from;
            if (w.trace) trace_misaligned(*w.trace, address, bytes, loads ? Access::load : Access::store, code);
            fail(wrong_copy, "begins a copy of " + std::to_string(bytes) + (loads ? " bytes from" : " bytes to") +
                                 " an address that is not a multiple of " + std::to_string(bytes) +
                                 ": a trace of this launch shows which");
        }
    uint32_t begun = w.trace ? trace_copy_begins(*w.trace, block(), to, from, bytes, zeros, code) : 0;
    Fiber& me = *block().running;
    me.copies.push_back({to, from, bytes, zeros, code, me.group, begun});
    enter_kernel(w);
    if (me.copies.size() > most_copies) do_copy(w, me);
}

void wrong_size_of_copy(size_t bytes, size_t zeros) {
    block().running->code = __builtin_return_address(0);
    fail(wrong_copy, "begins a copy of " + std::to_string(bytes) + " bytes, " + std::to_string(zeros) +
                         " of them zeros: it takes 4, 8 or 16, and no more zeros than bytes");
}

void wrong_place_of_copy(bool from) {
    block().running->code = __builtin_return_address(0);
    fail(wrong_copy, from ? "begins a copy from memory that is not global, which `__pipeline_memcpy_async` cannot read"
                          : "begins a copy to memory that is not shared, which `__pipeline_memcpy_async` cannot write");
}

void async_commit() { block().running->group++; }

void async_wait(size_t prior) {
    Fiber& me = *block().running;
    while (!me.copies.empty() && me.copies.front().group + prior < me.group) do_copy(*block().worker, me);
}

void do_copies(Fiber& of, unsigned int group) {
    Block& b = block();
    Fiber* running = b.running;
    b.running = &of;  // it writes, whoever waits
    while (!of.copies.empty() && of.copies.front().group <= group) do_copy(*b.worker, of);
    b.running = running;
    b.worker->in_kernel = 0;
}

}  // namespace cuda_on_cpu
