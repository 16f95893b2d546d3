// Memory of cudaMalloc that is touched outside of launches and calls where there is none: a tensor from
// `torch::from_blob` promises more than was allocated, or the memory was freed, and Python uses it. On a GPU, a later call
// fails. Here the process would end; instead the page gets memory full of NaN, and one line says what happened.
#include <csignal>
#include <cstring>
#include <string>

#include "runtime.h"
#include "../guard/guarded.h"

namespace cuda_on_cpu {

static constexpr size_t most_opened = 256 << 20;  // bytes; beyond that, the process ends
static std::atomic<size_t> opened{0};
static std::atomic<bool> watched{false};
static struct sigaction before_outside;

static void say_outside(const char* address, const void* context) {
    Place found;
    std::string what = freed_memory(address);
    if (what.empty()) what = find_tensor(address, found) ? beside(found) : "far outside every cudaMalloc allocation";
    const std::string text = "CUDA error: an illegal memory access was encountered: code outside of any launch " +
                             std::string(verb(context)) + " " + what +
                             " (does a tensor from torch::from_blob use it?). It goes on, and reads NaN.\n";
    if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

bool opens_outside(const char* address, const void* context) {
    const size_t page = page_bytes();
    char* begin = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(address) / page * page);
    if (!watched || opened >= most_opened || !allocated().surrounds(address)) return false;
    const bool is_first = !opened.fetch_add(page);
    if (is_first) say_outside(address, context);
    if (mprotect(begin, page, PROT_READ | PROT_WRITE) != 0) return false;
    fill_with_poison(begin, page);
    return true;
}

static void on_fault_outside(int signal, siginfo_t* info, void* context) {
    const int saved = errno;
    if (!opens_outside(static_cast<const char*>(info->si_addr), context)) sigaction(signal, &before_outside, nullptr);
    errno = saved;
}

void watch_outside() { watched = !in_program; }

void put_back_outside(const struct sigaction& other) {
    if (!watched || other.sa_sigaction == on_fault_outside) {
        sigaction(SIGSEGV, &other, nullptr);
        return;
    }
    before_outside = other;
    struct sigaction ours {};
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    ours.sa_sigaction = on_fault_outside;
    sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace cuda_on_cpu
