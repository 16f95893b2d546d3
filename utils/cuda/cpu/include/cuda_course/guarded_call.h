// How Python calls an extension's function on the CPU (runtime/host_call.cpp): a fault in the function's own code ends
// the call. torch_headers/cuda_course/called.h includes this where it finds it.
#pragma once

namespace cuda_on_cpu {

// Calls `run(data)` for the function of this name, whose library holds `code`. Returns nullptr, or what went wrong,
// which is empty if the learner has stopped it. Exceptions pass through.
const char* called_from_python(const char* function, const void* code, void (*run)(void*), void* data);

}  // namespace cuda_on_cpu

// A number that a launch has computed and a GPU computes differently, for differences.py to show; nullptr if there is
// none (runtime/numbers.cpp).
extern "C" const char* cuda_on_cpu_take_difference();

#define CUDA_COURSE_GUARDED_CALL ::cuda_on_cpu::called_from_python
#define CUDA_COURSE_TAKE_WARNING ::cuda_on_cpu_take_difference
#define CUDA_COURSE_SHOWS_WARNING "utils.cuda.cpu.differences"
