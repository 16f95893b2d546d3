// What a fault is: the tensor or allocation that is near it, the sentence about the thread, and CUDA's error.
#include <csignal>
#include <cstdio>
#include <cstring>

#include "profile.h"
#include "ubsan.h"
#include "../guard/guarded.h"
#include "../host/arrays.h"

namespace cuda_on_cpu {

// ---- the tensors of torch, if the guard is there -------------------------------------------------------------------

static std::atomic<const Guard*> guard{nullptr};

bool find_tensor(const void* address, Place& found) {
    const Guard* asked = guard;
    return (asked && asked->find(address, found)) || allocated().find(address, found) || kernels_heap().find(address, found);
}

// Without the guard nothing is known, and all tensors are the device's.
bool tensors_of_host(bool on) {
    const Guard* asked = guard;
    return asked && asked->of_host(on);
}

// `what` is a text of another library.
static bool is_of_host(const Place& p) { return !strcmp(p.what, tensor_of_host); }

bool is_tensor_of_host(const void* data) {
    Place found;
    return find_tensor(data, found) ? is_of_host(found) : !host_memory(data).empty();
}

std::string beside(const Place& p) {
    const char* end = p.begin + p.bytes;
    std::string distance = p.address < p.begin ? std::to_string(p.begin - p.address) + " bytes before the start"
                           : p.address == end  ? "right past the end"
                                               : std::to_string(p.address - end) + " bytes past the end";
    return distance + " of a " + p.what + " of " + std::to_string(p.bytes) + " bytes";
}

std::string damage_message(const char* kernel, bool alone) {
    const Guard* asked = guard;
    Place found;
    if (!(asked && asked->damage(found)) && !allocated().damage(found) && !kernels_heap().damage(found))
        return "";
    static constexpr char others[] = ", or of a kernel that another CPU thread launched at the same time,";
    const std::string who = found.freed ? "before this launch of " + std::string(kernel) + ", something"
                                        : "a thread of " + std::string(kernel) + (alone ? "" : others);
    return "CUDA error: an illegal memory access was encountered: " + who + " wrote " + beside(found) +
           (found.freed ? ", which is no longer there" : "") +
           ": run it under .trace (load_cuda: with trace=True) to see which thread";
}

std::string freed_memory(const void* address) {
    Place p;
    if (!find_tensor(address, p) || !p.freed || !p.inside()) return "";
    return "memory that was freed: a " + std::string(p.what) + " of " + std::to_string(p.bytes) + " bytes";
}

// What a thread did that touched what surrounds its own stack.
static std::string on_stack(const Worker& w, const Fiber& fiber) {
    // A frame that is too large is entered, or a call is made, with the end of the stack already near its limit.
    if (w.fault_address < fiber.stack && (!w.fault_stack || w.fault_stack < fiber.stack + 16 * 1024))
        return "needs more than " + std::to_string(Fiber::local_bytes / 1024) + " KB for its local variables";
    return std::string(w.fault_verb) + " far outside its local variables: compare the index of a local array with its " +
           "size, or trace this launch";
}

std::string what_ended_it(const Worker& w) {
    const Block& b = block();
    char what[256];
    switch (w.fault) {
        case too_much_shared:
            return "needs more static shared memory than the " + std::to_string(profile.shared_bytes) +
                   " bytes that a block has";
        case no_grid:
            return "calls grid.sync, but the launch is not cooperative: use cudaLaunchCooperativeKernel, which makes "
                   "sure that all blocks run side by side";
        case stuck: return "waits at " + w.fault_text + " for threads that wait elsewhere";
        case wrong_copy:
        case wrong_barrier:
        case wrong_registers:
        case wrong_product:
        case lacks_arrivals:
        case wrong_cluster:
        case wrong_mask:
        case wrong_free:
        case wrong_alignment: return w.fault_text;
        case assertion: return "fails the assertion `" + w.fault_text + "`";
        case trapped: return "calls __trap";
        case host_function: return "calls " + w.fault_text + ", which only the host has";
        case smashed: return "writes past the end of a local array: a trace of this launch shows the line";
        case no_room: return "finds no memory left for the stacks of other threads or for shared memory";
        case thrown: return "throws an exception, which device code cannot do" + (w.fault_text.empty() ? "" : ": " + w.fault_text);
        case SIGABRT: return "calls abort, which only the host has";
        case SIGTRAP: return "calls a breakpoint, which only a debugger can answer";
        case SIGILL:
            return "has reached what the compiler took for unreachable: a division by zero, or a function that ends "
                   "without a return";
        case SIGFPE: return "divides a whole number by zero";
    }
    const bool jumped = w.fault_stack && w.fault_address == w.fault_code;
    if (jumped && !w.fault_address) return "calls a function through a null pointer";
    if (jumped && is_host_address(w.fault_address))
        return "calls a __device__ function by the address that host code took, which is none of the GPU: pass the function "
               "as a template argument, or copy its address from a __device__ variable with cudaMemcpyFromSymbol";
    if (jumped)
        return "jumps to an address that holds no code: it calls through a bad pointer to a function, or an overrun of "
               "a local array has damaged its stack: a trace of this launch shows the line";
    if (b.running && b.running->around(w.fault_address)) return on_stack(w, *b.running);
    if (const auto freed = freed_memory(w.fault_address); !freed.empty()) return std::string(w.fault_verb) + " " + freed;
    if (Place found; find_tensor(w.fault_address, found) && !found.inside())
        snprintf(what, sizeof what, "%s %s: compare its index with the size, or trace this launch",
                 w.fault_verb, beside(found).c_str());
    else if (b.arena.around(w.fault_address))
        snprintf(what, sizeof what, "%s %s", w.fault_verb, beside_shared(b, w.fault_address).c_str());
    else if (w.fault_kind != Worker::named)
        snprintf(what, sizeof what, "touches memory %s: a trace of this launch shows the line",
                 w.fault_kind == Worker::far ? "far outside" : "at a misaligned address");
    else if (w.fault_address >= (const char*)4096)
        snprintf(what, sizeof what, "touches memory that is not there (address %p): compare its index with the size, %s",
                 (const void*)w.fault_address, "or trace this launch");
    else if (w.fault_address)
        snprintf(what, sizeof what, "%s memory next to a null pointer (address %p): a trace of this launch shows the line",
                 w.fault_verb, (const void*)w.fault_address);
    else
        snprintf(what, sizeof what, "%s memory through a null pointer: a trace of this launch shows the line", w.fault_verb);
    return what;
}

// CUDA's own message for the same mistake.
static std::string cuda_error(const Worker& w) {
    switch (w.fault) {
        case no_grid:
        case wrong_copy:
        case wrong_barrier:
        case wrong_registers:
        case wrong_cluster:
        case wrong_product:
        case wrong_mask:
        case thrown:
        case SIGABRT:
        case wrong_free:
        case host_function: return "";
        case lacks_arrivals:
        case stuck: return "this launch would never end: ";
        case no_room: return "out of memory: ";
        case SIGILL:
        case SIGFPE: return "a trap: ";
    }
    return cudaGetErrorString(error_of(w)) + std::string(": ");
}

// As an H200 answers to kernels with these mistakes. It waits forever for what never ends.
cudaError_t error_of(const Worker& w) {
    switch (w.fault) {
        case assertion: return cudaErrorAssert;
        case wrong_alignment: return cudaErrorMisalignedAddress;
        case no_room: return cudaErrorMemoryAllocation;
        case endless:
        case lacks_arrivals:
        case stuck: return cudaErrorLaunchTimeout;
        case smashed:
        case wrong_free: return cudaErrorIllegalAddress;
        case SIGSEGV:
        case SIGBUS:
            return w.fault_stack && w.fault_address == w.fault_code ? cudaErrorInvalidPc
                   : w.fault_kind == Worker::misaligned             ? cudaErrorMisalignedAddress
                                                                    : cudaErrorIllegalAddress;
    }
    return cudaErrorLaunchFailure;
}

// The running thread does `what` at an address that is not a multiple of the bytes that it needs.
static void fail_at_address(const std::string& what, const void* address, size_t needs, const UbsanPlace& place) {
    Block& b = block();
    if (!b.worker->in_kernel) return;
    b.worker->in_kernel = 0;
    std::string where = "an address that is";
    if (b.arena.around(static_cast<const char*>(address))) where = "an address in shared memory that is";
    if (Place found; find_tensor(address, found) && found.inside())
        where = "byte " + std::to_string(found.address - found.begin) + " of a " + found.what + ", which is";
    b.worker->fault_file = place.file;
    b.worker->fault_line = int(place.line);
    fail(wrong_alignment, what + " at " + where + " not a multiple of " + std::to_string(needs));
}

void misaligned(const void* address, size_t bytes, Access access) {
    const bool loads = access == Access::load || access == Access::strong_load;
    const std::string what = access == Access::atomic ? "updates " : loads ? "reads " : "writes ";
    const char* how = access == Access::atomic ? " bytes atomically" : " bytes";
    if (here) fail_at_address(what + std::to_string(bytes) + how, address, bytes, {});
}

void fail_misaligned(const UbsanPointer& access, const void* address) {
    const std::string type = access.type->plain_name();
    const bool vowel = type[0] == 'i' || type.starts_with("unsigned");
    const std::string what = std::string(access.kind == 1 ? "writes" : "reads") + (vowel ? " an " : " a ") + type;
    fail_at_address(what, address, size_t(1) << access.log_alignment, access.place);
}

static std::string numbers(uint3 at) {
    return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}
std::string block_name(uint3 block, const char* kernel) { return "block " + numbers(block) + " of " + kernel; }
std::string thread_name(uint3 thread, uint3 block, const char* kernel) {
    return "thread " + numbers(thread) + " of " + block_name(block, kernel);
}

std::string fault_message(const char* kernel, const Worker& w) {
    if (w.fault == too_much_shared) return std::string(kernel) + " " + what_ended_it(w);
    const std::string who = thread_name(block().thread, block().block, kernel);
    std::string place;
    if (w.fault == assertion || (w.fault == wrong_alignment && w.fault_file))
        place = std::string(" (") + w.fault_file + ", line " + std::to_string(w.fault_line) + ")";
    if (w.heap_was_full)
        place += ". In this launch `malloc` or `new` has returned null: all that kernels take is at most " +
                 std::to_string(kernels_heap_limit()) + " bytes (cudaLimitMallocHeapSize)";
    return std::string("CUDA error: ") + cuda_error(w) + who + " " + what_ended_it(w) + place;
}

}  // namespace cuda_on_cpu

// Called when the guard has been loaded (guard.py).
extern "C" void cuda_on_cpu_set_guard(const cuda_on_cpu::Guard* loaded) { cuda_on_cpu::guard = loaded; }
