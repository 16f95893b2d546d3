// The device's memory and what is in it: allocations, copies, and the variables of the source.
#pragma once

#include <cstddef>
#include <type_traits>

#include "../errors.h"
#include "../types.h"

// For sources that only name them: textures need a GPU (missing.py).
enum cudaTextureAddressMode { cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder };
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};

namespace cuda_on_cpu {

struct Allocation {
    enum Kind { device, managed, host } kind;
    void* base;
    size_t bytes;
    char* pages;  // where it is, alone
    size_t size;  // of the pages in bytes
};
bool find_allocation(const void* address, Allocation& found);  // whether it is in what cudaMalloc and the like gave
bool is_device_memory(const void* address, Allocation& found);  // the same, of what only the device may touch
cudaError_t allocate(void** p, size_t bytes, Allocation::Kind kind);
const char* function_of(Allocation::Kind kind);  // "cudaMalloc"

}  // namespace cuda_on_cpu

constexpr unsigned int cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2;
constexpr unsigned int cudaHostAllocWriteCombined = 4, cudaMemAttachGlobal = 1, cudaMemAttachHost = 2;
constexpr unsigned int cudaMemAttachSingle = 4;
constexpr int cudaCpuDeviceId = -1, cudaInvalidDeviceId = -2;

// Inlined: a trace then finds the line of the call.
template <class T>
__forceinline__ cudaError_t cudaMalloc(T** p, size_t bytes) {
    return cuda_on_cpu::allocate((void**)p, bytes, cuda_on_cpu::Allocation::device);
}
template <class T>
__forceinline__ cudaError_t cudaMallocManaged(T** p, size_t bytes, unsigned int flags = cudaMemAttachGlobal) {
    bool known = flags == cudaMemAttachGlobal || flags == cudaMemAttachHost;
    if (!known) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    return cuda_on_cpu::allocate((void**)p, bytes, cuda_on_cpu::Allocation::managed);
}
template <class T>
__forceinline__ cudaError_t cudaHostAlloc(T** p, size_t bytes, unsigned int flags) {
    if (flags > 7) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    return cuda_on_cpu::allocate((void**)p, bytes, cuda_on_cpu::Allocation::host);
}
template <class T>
__forceinline__ cudaError_t cudaMallocHost(T** p, size_t bytes, unsigned int flags = cudaHostAllocDefault) {
    return cudaHostAlloc(p, bytes, flags);
}
cudaError_t cudaMallocPitch(void** p, size_t* pitch, size_t width, size_t height);
template <class T>
__forceinline__ cudaError_t cudaMallocPitch(T** p, size_t* pitch, size_t width, size_t height) {
    return cudaMallocPitch((void**)p, pitch, width, height);
}
cudaError_t cudaFree(void* p);
cudaError_t cudaFreeHost(void* p);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind);
cudaError_t cudaMemset(void* p, int value, size_t bytes);
cudaError_t cudaMemset2D(void* p, size_t pitch, int value, size_t width, size_t height);
cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes);

// ---- the host's own memory ------------------------------------------------------------------------------------------

constexpr unsigned int cudaHostRegisterDefault = 0, cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2;
constexpr unsigned int cudaHostRegisterIoMemory = 4, cudaHostRegisterReadOnly = 8;

cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned int flags);
cudaError_t cudaHostUnregister(void* p);
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int flags);
template <class T>
cudaError_t cudaHostGetDevicePointer(T** device, void* host, unsigned int flags) {
    return cudaHostGetDevicePointer((void**)device, host, flags);
}
cudaError_t cudaHostGetFlags(unsigned int* flags, void* host);

enum cudaMemoryType {
    cudaMemoryTypeUnregistered,
    cudaMemoryTypeHost,
    cudaMemoryTypeDevice,
    cudaMemoryTypeManaged
};
struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
    void* devicePointer;
    void* hostPointer;
};
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p);

// Advice about managed memory: there is nothing to move here. The device is a number (CUDA 12) or a cudaMemLocation.
enum cudaMemoryAdvise {
    cudaMemAdviseSetReadMostly = 1,
    cudaMemAdviseUnsetReadMostly,
    cudaMemAdviseSetPreferredLocation,
    cudaMemAdviseUnsetPreferredLocation,
    cudaMemAdviseSetAccessedBy,
    cudaMemAdviseUnsetAccessedBy
};
enum cudaMemLocationType { cudaMemLocationTypeInvalid, cudaMemLocationTypeDevice, cudaMemLocationTypeHost };
struct cudaMemLocation {
    cudaMemLocationType type;
    int id;
};
cudaError_t cudaMemAdvise(const void* p, size_t bytes, cudaMemoryAdvise advice, int device);
inline cudaError_t cudaMemAdvise(const void* p, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation) {
    return cudaMemAdvise(p, bytes, advice, 0);
}

// ---- boxes of memory ------------------------------------------------------------------------------------------------

struct cudaPitchedPtr { void* ptr; size_t pitch, xsize, ysize; };
struct cudaExtent { size_t width, height, depth; };
struct cudaPos { size_t x, y, z; };
inline cudaPitchedPtr make_cudaPitchedPtr(void* p, size_t pitch, size_t x, size_t y) { return {p, pitch, x, y}; }
inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) { return {width, height, depth}; }
inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return {x, y, z}; }
typedef struct cudaArray* cudaArray_t;  // only textures need them: always a null pointer here
struct cudaMemcpy3DParms {
    cudaArray_t srcArray;
    cudaPos srcPos;
    cudaPitchedPtr srcPtr;
    cudaArray_t dstArray;
    cudaPos dstPos;
    cudaPitchedPtr dstPtr;
    cudaExtent extent;
    cudaMemcpyKind kind;
};
cudaError_t cudaMalloc3D(cudaPitchedPtr* p, cudaExtent extent);
cudaError_t cudaMemset3D(cudaPitchedPtr p, int value, cudaExtent extent);
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* copy);

// ---- __device__ and __constant__ variables, which are the host's variables too --------------------------------------

template <class T>
cudaError_t cudaGetSymbolAddress(void** p, const T& symbol) {
    if (!p) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    *p = const_cast<void*>(static_cast<const volatile void*>(&symbol));
    return cudaSuccess;
}
template <class T>
cudaError_t cudaGetSymbolSize(size_t* bytes, const T&) {
    if (!bytes) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    *bytes = sizeof(T);
    return cudaSuccess;
}
namespace cuda_on_cpu {
// What host code means by the name of a variable of the device (host_copies.py).
template <auto& variable>
auto& host_copy() {
    using T = std::remove_reference_t<decltype(variable)>;
    static void* const copy = calloc(1, sizeof(T));
    return *static_cast<T*>(copy);
}
// A variable's name, "tile", was a symbol before CUDA 5.
template <class T>
constexpr bool is_string = std::is_same_v<T, const char[sizeof(T)]>;
}  // namespace cuda_on_cpu
inline cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t = 0,
                                      cudaMemcpyKind = cudaMemcpyDefault) {
    return cuda_on_cpu::answer(cudaErrorInvalidSymbol);  // an address is none
}
template <class T>
__forceinline__ cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    if (cuda_on_cpu::is_string<T>) return cuda_on_cpu::answer(cudaErrorInvalidSymbol);
    if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    return cudaMemcpy((char*)&symbol + offset, from, bytes, kind);
}
template <class T>
__forceinline__ cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    return cudaMemcpy(to, (const char*)&symbol + offset, bytes, kind);
}
