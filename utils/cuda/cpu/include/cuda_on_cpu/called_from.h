// In a trace: the calls that have led a thread to where it waits (called_from.py).
#pragma once

namespace cuda_on_cpu {

// In trace/events.cpp, since what these do is no access of the source.
struct CalledFrom {
    const CalledFrom* outer;
    unsigned int number, line;
    CalledFrom(unsigned int number, unsigned int line = __builtin_LINE());
    ~CalledFrom();
    CalledFrom(const CalledFrom&) = delete;
};

}  // namespace cuda_on_cpu

#if defined(CUDA_ON_CPU_TRACE) && !defined(CUDA_ON_CPU_RECORDED)
#define CUDA_ON_CPU_FROM(number) ::cuda_on_cpu::CalledFrom(number)
#else
#define CUDA_ON_CPU_FROM(number) (void)0
#endif
