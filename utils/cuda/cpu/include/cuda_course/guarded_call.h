// How Python calls an extension's function on the CPU (runtime/host_call.cpp): a fault in the function's own code ends
// the call. torch_headers/cuda_course/called.h includes this where it finds it.
#pragma once

namespace cuda_on_cpu {

// Calls `run(data)` for the function of this name, whose library holds `code`. Returns nullptr, or what went wrong,
// which is empty if the learner has stopped it. Exceptions pass through.
const char* called_from_python(const char* function, const void* code, void (*run)(void*), void* data);

}  // namespace cuda_on_cpu

#define CUDA_COURSE_GUARDED_CALL ::cuda_on_cpu::called_from_python
