// A whole program with a `main` (utils/cuda/run.py): what is different in a process that is not Python.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "blas.h"

namespace cuda_on_cpu {

// A launch throws where a kernel faults. In a program nobody catches that: it ends as by any crash, with the message.
static void end_with_message() {
    if (std::exception_ptr thrown = std::current_exception()) {
        fflush(stdout);
        try {
            std::rethrow_exception(thrown);
        } catch (const std::exception& error) {
            fprintf(stderr, "%s\n", error.what());
        } catch (...) {
            fprintf(stderr, "an exception that is not a std::exception was not caught\n");
        }
    }
    abort();
}

}  // namespace cuda_on_cpu

// Called before `main` (build.py). `torch_library` is the path of the library whose BLAS cuBLAS uses.
extern "C" void cuda_on_cpu_program_begins(const char* torch_library) {
    cuda_on_cpu::torch_library = torch_library;
    std::set_terminate(cuda_on_cpu::end_with_message);
}
