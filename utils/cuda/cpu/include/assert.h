// Stands in for C's header of this name, so that an assertion which fails in a kernel ends the launch and not the
// process. Like C's it may be included again, after NDEBUG has changed.
#include_next <assert.h>

#ifndef NDEBUG
namespace cuda_on_cpu {
[[noreturn]] void failed_assertion(const char* condition, const char* file, int line);  // in c_library.cpp
}
#undef assert
#define assert(...) \
    ((__VA_ARGS__) ? (void)0 : ::cuda_on_cpu::failed_assertion(#__VA_ARGS__, __FILE__, __LINE__))
#endif
