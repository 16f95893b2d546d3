// What the runtime asks about torch's tensors. The answers come from guard.cpp, which is built apart from the runtime,
// since it needs torch, and may be missing.
#pragma once

#include <cstddef>

namespace cuda_on_cpu {

// An address, and the memory that it is in or beside: a tensor's, or what cudaMalloc gave.
struct Place {
    const char* address;
    const char* begin;  // of that memory
    size_t bytes;       // of that memory
    bool freed;         // it is no longer there
    const char* what;   // "tensor" or "cudaMalloc allocation"

    bool inside() const { return address >= begin && address < begin + bytes; }
};

struct Guard {
    // Whether the address is in a tensor's memory or in what surrounds it.
    bool (*find)(const void* address, Place& found);
    // Whether something was written beside a tensor since the last call, and where. The mark is then restored.
    bool (*damage)(Place& found);
};

}  // namespace cuda_on_cpu
