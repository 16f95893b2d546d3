// What the runtime asks about torch's tensors. The answers come from guard.cpp, which is built apart from the runtime,
// since it needs torch, and may be missing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_on_cpu {

// What fills memory that nobody has written: NaN as half, bfloat16, float and double, and no number that a kernel would
// compute. A tensor begins at an even address, so every second byte of memory is the same.
constexpr uint64_t poison = 0x7FF97FF97FF97FF9;
// The same for what cudaMalloc gives: about 60,000 as half and 1e36 as float. A program's host code compares results with
// what it expects, and `if (fabs(y - expected) > 1e-5) fail();` passes a NaN.
constexpr uint64_t device_poison = 0x7B5A7B5A7B5A7B5A;
inline void fill_with_poison(void* begin, size_t bytes, uint64_t value = poison) {
    char* at = static_cast<char*>(begin);
    for (; bytes >= sizeof value; at += sizeof value, bytes -= sizeof value) __builtin_memcpy(at, &value, sizeof value);
    __builtin_memcpy(at, &value, bytes);
}

// An address, and the memory that it is in or beside: a tensor's, or what cudaMalloc gave.
struct Place {
    const char* address;
    const char* begin;  // of that memory
    size_t bytes;       // of that memory
    bool freed;         // it is no longer there
    const char* what;   // "tensor", "cudaMalloc allocation"

    bool inside() const { return address >= begin && address < begin + bytes; }
};

struct Guard {
    // Whether the address is in a tensor's memory or in what surrounds it.
    bool (*find)(const void* address, Place& found);
    // Whether something was written beside a tensor since the last call, and where. The mark is then restored.
    bool (*damage)(Place& found);
    // While on, what this thread allocates for tensors is called tensor_of_host; returns what it was before.
    bool (*of_host)(bool on);
};
constexpr char tensor_of_host[] = "tensor that was made without a device";

}  // namespace cuda_on_cpu
