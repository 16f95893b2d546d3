// What a module needs so that Python can launch its kernels (include/cuda_on_cpu/kernel.h).
#include "cuda_on_cpu/kernel.h"

#include <cxxabi.h>

#include <mutex>
#include <set>
#include <stdexcept>

#include "cuda_on_cpu/host.h"
#include "runtime.h"

namespace cuda_on_cpu {

std::string demangled(const char* type) {
    char* text = abi::__cxa_demangle(type, nullptr, nullptr, nullptr);
    std::string result = text ? text : type;
    free(text);
    return result;
}

static Mutex texts_mutex;
static std::set<std::string> texts;

static const char* kept(std::string text) {
    std::lock_guard lock(texts_mutex);
    return texts.insert(std::move(text)).first->c_str();
}

const char* signature_text(const std::type_info& kernel) { return kept(demangled(kernel.name())); }

const char* parameters_text(const Parameter* parameters, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; i++)
        text += std::to_string(parameters[i].bytes) + ":" + std::to_string(parameters[i].pointee_alignment) + ":" +
                std::to_string(parameters[i].pointee_bytes) + ";";
    return kept(text);
}

const char* guarded(void (*run)(const PythonLaunch&), const char* name, const unsigned grid[3], const unsigned block[3],
                    size_t shared_bytes, bool cooperative, void** arguments) {
    PythonLaunch asked{name, Launch({grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared_bytes), arguments};
    asked.launch.cooperative = cooperative;
    asked.launch.any_shared_bytes = true;
    static thread_local std::string error;
    error.clear();
    const cudaError_t before = cudaGetLastError();  // an error that the extension has not asked for
    try {
        run(asked);
        if (last_error() != cudaSuccess)
            error = std::string("CUDA error: ") + cudaGetErrorString(last_error()) + refusal_text();
    } catch (const std::exception& e) {
        error = e.what();
    }
    last_error() = before;
    return error.empty() ? nullptr : error.c_str();
}

}  // namespace cuda_on_cpu
