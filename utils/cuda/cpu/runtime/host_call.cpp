// A call of an extension's function from Python. A fault in the function's own code ends the call, not Python: a null
// pointer, a division by zero, an endless recursion, `abort`, a failed assertion, `exit`. The objects on its stack are
// abandoned, not destroyed, so some memory stays in use.
//
// Python's own handlers get a fault inside another library, since nobody knows what that library was changing.
#include <dlfcn.h>
#include <sys/resource.h>

#include <string>

#include "cuda_course/guarded_call.h"
#include "runtime.h"

namespace cuda_on_cpu {

// The current call of a CPU thread. Calls may be nested.
struct HostCall {
    const char* function;
    const void* code;  // of the extension
    Position* here;
    HostCall* outer;
    bool moves = false;  // memory, for the function: see Moving
    std::string error;
    jmp_buf place;
};
static thread_local HostCall* host_call = nullptr;

static const void* library_of(const void* code) {
    Dl_info found{};
    return code && dladdr(code, &found) ? found.dli_fbase : nullptr;
}

bool in_host_call() { return host_call && here == host_call->here; }

bool is_host_code(const void* code) {
    const void* library = in_host_call() ? library_of(code) : nullptr;
    return library && library == library_of(host_call->code);
}

Moving::Moving() {
    if (host_call) host_call->moves = true;
}

Moving::~Moving() {
    if (host_call) host_call->moves = false;
}

bool moves_for_host() { return in_host_call() && host_call->moves; }

bool is_runtime_code(const void* code) { return library_of(code) == library_of(reinterpret_cast<const void*>(&is_runtime_code)); }

void leave_host_call(const std::string& what) {
    host_call->error = what.empty() ? what : std::string(host_call->function) + " " + what + ", in its host code";
    _longjmp(host_call->place, 1);
}

// Where the main thread's stack has no limit (GNU make lifts it for what it starts), an endless recursion would take all
// of the machine's memory before it ends. So it has one during a call.
class StackLimit {
    static constexpr rlim_t most = 64 << 20;
    rlimit before{};

   public:
    StackLimit() {
        getrlimit(RLIMIT_STACK, &before);
        if (before.rlim_cur > most) set({most, before.rlim_max});
    }
    ~StackLimit() {
        if (before.rlim_cur > most) set(before);
    }
    static void set(const rlimit& limit) { setrlimit(RLIMIT_STACK, &limit); }
};

const char* called_from_python(const char* function, const void* code, void (*run)(void*), void* data) {
    static thread_local std::string error;
    static thread_local const std::unique_ptr<char[]> signal_stack(new char[SignalStack::bytes]);
    HostCall call{function, code, here, host_call, false, "", {}};
    Handlers handlers;
    StackLimit limit;
    SignalStack stack(signal_stack.get());
    struct Current {
        explicit Current(HostCall& call) { host_call = &call; }
        ~Current() { host_call = host_call->outer; }
    } current(call);
    if (_setjmp(call.place) == 0) {
        run(data);
        return nullptr;
    }
    error = call.error;
    return error.c_str();
}

}  // namespace cuda_on_cpu
