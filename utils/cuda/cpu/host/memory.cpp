// What cudaMalloc and the like have allocated, and copies of memory. A copy that would leave an allocation or a tensor
// is refused.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include "arrays.h"
#include "streams.h"
#include "../guard/guarded.h"
#include "../runtime/profile.h"
#include "../runtime/runtime.h"
#include "../trace/trace.h"

extern "C" void cuda_on_cpu_trace_freed(void* base);  // exports.cpp

namespace cuda_on_cpu {

static Mutex memory_mutex;
static std::map<uintptr_t, Allocation> allocations;  // by address

GuardedMemory& allocated() {
    static GuardedMemory* all = [] {
        auto* made = new GuardedMemory("cudaMalloc allocation", false, 16'000, device_poison);
        pthread_atfork([] { allocated().mutex.lock(); }, [] { allocated().mutex.unlock(); },
                       [] { allocated().mutex.unlock(); });
        return made;
    }();
    return *all;
}

// ---- in a program, the host's code cannot touch the device's memory --------------------------------------------------

static int accesses = 0;  // that live; guarded by memory_mutex, as are the two below
static bool closed = false;
static double seconds_spent = 0;

// Opening and closing takes time, of which a program with many launches would spend much: then the memory stays open.
static void protect_device_memory(bool close) {
    constexpr double most_seconds = 0.2;
    if (close == closed || (close && seconds_spent > most_seconds)) return;
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& [_, a] : allocations)
        if (a.kind == Allocation::device) mprotect(a.pages, a.size, close ? PROT_NONE : PROT_READ | PROT_WRITE);
    closed = close;
    seconds_spent += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

DeviceAccess::DeviceAccess() {
    if (!in_program) return;
    std::lock_guard lock(memory_mutex);
    if (!accesses++) protect_device_memory(false);
}

DeviceAccess::~DeviceAccess() {
    if (!in_program) return;
    std::lock_guard lock(memory_mutex);
    if (!--accesses) protect_device_memory(true);
}

static std::atomic<uintptr_t> device_begin{UINTPTR_MAX}, device_end{0};  // all of it is between them

bool is_device_memory(const void* p, Allocation& found) {
    const auto a = uintptr_t(p);
    return a >= device_begin && a < device_end && find_allocation(p, found) && found.kind == Allocation::device;
}

// ---- allocations -----------------------------------------------------------------------------------------------------

size_t machine_bytes() { return size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE)); }

// The caller holds memory_mutex.
static const Allocation* allocation_of(const void* address) {
    auto behind = allocations.upper_bound(uintptr_t(address));
    if (behind == allocations.begin()) return nullptr;
    const auto& [base, allocation] = *std::prev(behind);
    return uintptr_t(address) - base < allocation.bytes ? &allocation : nullptr;
}

bool find_allocation(const void* address, Allocation& found) {
    std::lock_guard lock(memory_mutex);
    const Allocation* allocation = allocation_of(address);
    if (allocation) found = *allocation;
    return allocation;
}

// Sets the pointer to null, if it can be written: the system refuses a bad address, where a store would crash.
static bool set_to_null(void** p) {
    static const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
    return zeros < 0 || ::read(zeros, p, sizeof *p) == sizeof *p;
}

const char* function_of(Allocation::Kind kind) {
    const char* const names[] = {"cudaMalloc", "cudaMallocManaged", "cudaMallocHost"};
    return names[kind];
}

static const char* name_of(Allocation::Kind kind) {
    const char* const names[] = {"cudaMalloc allocation", "cudaMallocManaged allocation", "cudaMallocHost allocation"};
    return names[kind];
}

static void tell_trace(const Allocation& a, uintptr_t code = 0) {
    trace_allocated(a.base, a.bytes, (std::string("memory from ") + function_of(a.kind)).c_str(), code);
}

// The learner's code would crash here, and end Python.
[[noreturn]] static void refuse_to_set(const void* p, Allocation::Kind kind, bool on_device) {
    char text[200];
    snprintf(text, sizeof text, "gives %s address %p for the pointer that it sets, %s", function_of(kind), p,
             on_device ? "which is in memory of the device (the host cannot write to it)"
                       : "where nothing can be written (does it need the `&` of `&d`?)");
    refuse_host(text);
    throw std::runtime_error("the host " + std::string(text));
}

cudaError_t allocate(void** p, size_t bytes, Allocation::Kind kind) {
    if (here) return cudaErrorUnknown;  // as CUDA's device runtime without -rdc=true
    if (!p) return answer(cudaErrorInvalidValue);
    Allocation around;
    const bool on_device = find_allocation(p, around) && around.kind == Allocation::device;
    if (on_device || !set_to_null(p)) refuse_to_set(p, kind, on_device);
    if (!bytes) return cudaSuccess;
    if (cudaError_t error = device_error()) return error;
    if (cudaError_t error = outside_captures(cudaErrorStreamCaptureUnsupported)) return error;
    if (bytes > machine_bytes()) return answer(cudaErrorMemoryAllocation);
    watch_outside();
    *p = allocated().take(bytes, name_of(kind));
    if (!*p) return answer(cudaErrorMemoryAllocation);
    const Guarded* piece = allocated().of(*p);
    const Allocation made{kind, *p, bytes, piece->pages, piece->size};
    tell_trace(made, tracing ? caller() : 0);
    DeviceAccess access;  // when it ends, the new memory is closed too
    std::lock_guard lock(memory_mutex);
    allocations[uintptr_t(*p)] = made;
    if (kind == Allocation::device) {
        device_begin = std::min(device_begin.load(), uintptr_t(*p));
        device_end = std::max(device_end.load(), uintptr_t(*p) + bytes);
    }
    return cudaSuccess;
}

void trace_allocations() {
    std::lock_guard lock(memory_mutex);
    for (const auto& [_, allocation] : allocations) tell_trace(allocation);
    trace_registered();
}

static void release_pages(void* p) {
    cuda_on_cpu_trace_freed(p);
    allocated().give_back(allocated().of(p));
}

static cudaError_t release(void* p, bool of_host) {
    if (!p) return device_error();
    if (cudaError_t error = wait_for_device()) return error;
    trace_host_waits_for_all();
    DeviceAccess access;
    {
        std::lock_guard lock(memory_mutex);
        auto found = allocations.find(uintptr_t(p));
        if (found == allocations.end() || (found->second.kind == Allocation::host) != of_host)
            return answer(cudaErrorInvalidValue);
        allocations.erase(found);
    }
    release_pages(p);
    return cudaSuccess;
}

// `height` rows of `width` bytes, each `pitch` behind the last, must be in one allocation, or in one tensor that the
// guard knows, if they begin in one.
bool reaches_out(const void* p, size_t pitch, size_t width, size_t height) {
    Allocation in;
    size_t room;
    if (find_allocation(p, in))
        room = in.bytes - size_t((const char*)p - (const char*)in.base);
    else if (tracing && trace_room(*tracing, p) != SIZE_MAX)  // around it is the trace's own memory
        room = trace_room(*tracing, p);
    else if (Place at; find_tensor(p, at))
        room = at.inside() && !(in_program && at.freed) ? at.bytes - size_t(at.address - at.begin) : 0;
    else
        return false;
    return width > room || (pitch && height - 1 > (room - width) / pitch);
}

void forget_allocations() {
    DeviceAccess access;
    std::map<uintptr_t, Allocation> all;
    {
        std::lock_guard lock(memory_mutex);
        all.swap(allocations);
    }
    for (auto& [_, allocation] : all) release_pages(allocation.base);
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cudaError_t cudaFree(void* p) { return release(p, false); }
cudaError_t cudaFreeHost(void* p) { return release(p, true); }

cudaError_t cudaMallocPitch(void** p, size_t* pitch, size_t width, size_t height) {
    if (!p || !pitch || width > profile.max_pitch_bytes) return answer(cudaErrorInvalidValue);
    *pitch = (width + profile.pitch_bytes - 1) / profile.pitch_bytes * profile.pitch_bytes;
    if (*pitch && height > SIZE_MAX / *pitch) return answer(cudaErrorMemoryAllocation);
    return allocate(p, *pitch * height, Allocation::device);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    if (!free || !total) return answer(cudaErrorInvalidValue);
    if (cudaError_t error = device_error()) return error;
    *total = *free = machine_bytes();
#ifdef _SC_AVPHYS_PAGES
    *free = size_t(sysconf(_SC_AVPHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
#endif
    return cudaSuccess;
}

namespace cuda_on_cpu {

// Whether it is the host's, and only the host's. In a program, CUDA's functions have given all other memory; a variable
// at file scope may be the device's. In an extension, tensors are memory of the device too.
static bool only_host(const void* p) {
    cudaPointerAttributes known;
    Dl_info variable;
    if (!in_program) return !host_memory(p).empty();
    return !cudaPointerGetAttributes(&known, p) && known.type == cudaMemoryTypeUnregistered && !dladdr(p, &variable);
}

// What `malloc` gave in a kernel is for kernels alone.
static bool is_of_kernels(const void* p) {
    Place found;
    return kernels_heap().find(p, found) && found.inside();
}

// As an H200 answers: the kind says what each side must be, and only memory of the host alone contradicts it.
static bool contradicts(cudaMemcpyKind kind, const void* to, const void* from) {
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    return (to_device && only_host(to)) || (from_device && only_host(from));
}

cudaError_t copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                      cudaMemcpyKind kind) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return answer(cudaErrorInvalidMemcpyDirection);
    if (!width || !height) return cudaSuccess;
    if (device_is_lost()) return wait_for_device();
    bool too_wide = width > std::min(to_pitch, from_pitch);
    if (height > 1 && (too_wide || std::max(to_pitch, from_pitch) > profile.max_pitch_bytes))
        return answer(cudaErrorInvalidPitchValue);
    if (is_of_kernels(to) || is_of_kernels(from)) return answer(cudaErrorInvalidValue);
    if (!to || !from || reaches_out(to, to_pitch, width, height) || reaches_out(from, from_pitch, width, height))
        return answer(cudaErrorInvalidValue);
    if (contradicts(kind, to, from)) return answer(cudaErrorInvalidValue);
    check_local_variable(to, (height - 1) * to_pitch + width, height > 1);
    check_host_array(to, (height - 1) * to_pitch + width);
    check_host_array(from, (height - 1) * from_pitch + width);
    Moving moving;
    DeviceAccess access;
    for (size_t row = 0; row < height; row++) {
        memmove((char*)to + row * to_pitch, (const char*)from + row * from_pitch, width);
        trace_moves((const char*)from + row * from_pitch, width, Access::load);
        trace_moves((char*)to + row * to_pitch, width, Access::store);
        trace_objects_move((char*)to + row * to_pitch, (const char*)from + row * from_pitch, width);
    }
    return cudaSuccess;
}

cudaError_t set_rows(void* p, size_t pitch, int value, size_t width, size_t height) {
    if (!width || !height) return cudaSuccess;
    if (!p || only_host(p) || is_of_kernels(p) || (height > 1 && width > pitch) || reaches_out(p, pitch, width, height))
        return answer(cudaErrorInvalidValue);
    if (device_is_lost()) return device_error();
    Moving moving;
    DeviceAccess access;
    for (size_t row = 0; row < height; row++) {
        memset((char*)p + row * pitch, value, width);
        trace_moves((char*)p + row * pitch, width, Access::store);
    }
    return cudaSuccess;
}

// A box is `depth` slices, each of `ysize` rows in memory; its width is in bytes.
static char* corner(const cudaPitchedPtr& p, const cudaPos& at) {
    return (char*)p.ptr + (at.z * p.ysize + at.y) * p.pitch + at.x;
}

cudaError_t copy_box(const cudaMemcpy3DParms& c) {
    auto fits = [&](const cudaPitchedPtr& p, const cudaPos& at) {
        return p.ptr && at.x + c.extent.width <= p.pitch && (c.extent.depth < 2 || at.y + c.extent.height <= p.ysize);
    };
    if (!fits(c.srcPtr, c.srcPos) || !fits(c.dstPtr, c.dstPos)) return answer(cudaErrorInvalidValue);
    for (size_t z = 0; z < c.extent.depth; z++) {
        char* to = corner(c.dstPtr, {c.dstPos.x, c.dstPos.y, c.dstPos.z + z});
        const char* from = corner(c.srcPtr, {c.srcPos.x, c.srcPos.y, c.srcPos.z + z});
        cudaError_t error = copy_rows(to, c.dstPtr.pitch, from, c.srcPtr.pitch, c.extent.width, c.extent.height, c.kind);
        if (error) return error;
    }
    return cudaSuccess;
}

}  // namespace cuda_on_cpu

// These wait for the legacy stream, which a stream that is being captured must not.
static cudaError_t legacy() { return outside_captures(cudaErrorStreamCaptureImplicit); }

// The host waits for such a copy.
static cudaError_t copied(cudaError_t error) {
    trace_host_waits(trace_times({0, true}));
    return error;
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
    if (cudaError_t error = legacy()) return error;
    StreamWork begun(nullptr, "a copy");
    trace_finished();
    return copied(copy_rows(to, to_pitch, from, from_pitch, width, height, kind));
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpy2D(to, 0, from, 0, bytes, 1, kind);
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
    if (to_device || from_device) return answer(cudaErrorInvalidDevice);
    return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice);
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* copy) {
    if (!copy) return answer(cudaErrorInvalidValue);
    if (cudaError_t error = legacy()) return error;
    StreamWork begun(nullptr, "a copy");
    return copied(copy_box(*copy));
}

cudaError_t cudaMemset2D(void* p, size_t pitch, int value, size_t width, size_t height) {
    if (cudaError_t error = legacy()) return error;
    StreamWork begun(nullptr, "a memset");
    return set_rows(p, pitch, value, width, height);
}

cudaError_t cudaMemset(void* p, int value, size_t bytes) { return cudaMemset2D(p, 0, value, bytes, 1); }

cudaError_t cudaMalloc3D(cudaPitchedPtr* p, cudaExtent extent) {
    if (!p) return answer(cudaErrorInvalidValue);
    *p = {nullptr, 0, extent.width, extent.height};
    if (extent.depth && extent.height > SIZE_MAX / extent.depth) return answer(cudaErrorMemoryAllocation);
    return cudaMallocPitch(&p->ptr, &p->pitch, extent.width, extent.height * extent.depth);
}

cudaError_t cudaMemset3D(cudaPitchedPtr p, int value, cudaExtent extent) {
    for (size_t z = 0; z < extent.depth; z++) {
        char* slice = corner(p, {0, 0, z});
        if (cudaError_t error = cudaMemset2D(slice, p.pitch, value, extent.width, extent.height)) return error;
    }
    return cudaSuccess;
}
