// A call of an extension's function from Python. A fault in the function's own code ends the call, not Python: a null
// pointer, a division by zero, an endless recursion, `abort`, a failed assertion, `exit`, `std::terminate`. The objects on
// its stack are abandoned, not destroyed, so some memory stays in use. What goes wrong in a std::thread that the function
// has begun ends that thread, and becomes the call's error.
//
// Python's own handlers get a fault inside another library, since nobody knows what that library was changing.
#include <cxxabi.h>
#include <sys/resource.h>

#include <exception>
#include <map>
#include <string>

#include "cuda_course/guarded_call.h"
#include "../trace/trace.h"
#include "runtime.h"

namespace cuda_on_cpu {

// The std::threads that a call has begun, and that these have begun.
struct HostThreads {
    const bool traced;  // the call is
    std::mutex mutex;
    std::condition_variable one_ended;
    int running = 0;
    bool over = false;     // the call is
    std::string error;     // of the first that went wrong
    UntracedLaunch untraced;  // the last one

    // Those that run may use what is on the stack that is abandoned. Whether all have ended, within ten seconds.
    bool wait() {
        std::unique_lock lock(mutex);
        return one_ended.wait_for(lock, std::chrono::seconds(10), [&] { return running == 0; });
    }
    void end(const std::string& what) {
        std::lock_guard lock(mutex);
        running--;
        if (over && !what.empty()) fprintf(stderr, "%s\n", what.c_str());
        if (error.empty()) error = what;
        one_ended.notify_all();
    }
};

// The library of an extension's function. It is looked up before the function runs: a signal may come while the loader
// holds its own lock, and a handler that asks the loader would wait for ever.
static Library library_of(const void* code) {
    static Mutex mutex;
    static auto& known = *new std::map<const void*, Library>;
    std::lock_guard lock(mutex);
    const auto [place, is_new] = known.try_emplace(code);
    if (is_new) place->second = library_around(code);
    return place->second;
}

// The current call of a CPU thread, or the std::thread itself that a call has begun. Calls may be nested.
struct HostCall {
    const char* function;
    Library library;  // the extension
    Position* here;
    HostCall* outer;
    pid_t process;  // a child of it, from fork() or vfork(), ends as it likes
    bool is_thread = false;
    std::shared_ptr<HostThreads> threads = nullptr;
    bool moves = false;  // memory, for the function: see Moving
    std::string error = "";
    jmp_buf place = {};
};
static thread_local HostCall* host_call = nullptr;

bool in_host_call() { return host_call && here == host_call->here; }
bool would_end_python() { return in_host_call() && host_call->process == getpid(); }
bool in_host_thread() { return in_host_call() && host_call->is_thread; }

bool is_host_code(const void* code) { return in_host_call() && host_call->library.holds(code); }

Moving::Moving() {
    if (host_call) host_call->moves = true;
}

Moving::~Moving() {
    if (host_call) host_call->moves = false;
}

bool moves_for_host() { return in_host_call() && host_call->moves; }

static const Library runtime = library_around(reinterpret_cast<const void*>(&is_host_code));
bool is_runtime_code(const void* code) { return runtime.holds(code); }

void leave_host_call(const std::string& what, const void* place) {
    HostCall& call = *host_call;
    const char* where = call.is_thread ? ", in a std::thread of its host code" : ", in its host code";
    call.error = what.empty() ? what : std::string(call.function) + " " + what + where;
    if (tracing && !what.empty()) trace_host_error(*tracing, call.error, place);
    if (!call.is_thread && call.threads) call.threads->wait();
    _longjmp(call.place, 1);
}

void note_untraced(const char* kernel, const void* code) {
    if (in_program) return note_untraced_by_program(kernel, code);
    if (!host_call || !host_call->is_thread || !host_call->threads->traced) return;
    std::lock_guard lock(host_call->threads->mutex);
    host_call->threads->untraced = {kernel, code};
}

// ---- std::terminate -------------------------------------------------------------------------------------------------

static std::string text_of_exception() {
    try {
        throw;
    } catch (const std::exception& error) {
        const std::string text = error.what();
        return text.substr(0, text.find('\n'));
    } catch (...) {
        return "what is not a std::exception";
    }
}

static std::terminate_handler otherwise;

static void on_terminate() {
    if (in_host_call() && !std::current_exception()) {
        // If a std::thread was destroyed that nobody has joined, it may still run, on this stack.
        const bool may_leave = host_call->is_thread || !host_call->threads || host_call->threads->wait();
        if (may_leave) leave_host_call("calls std::terminate (does it destroy a std::thread without joining it?)");
    } else if (in_host_call()) {
        leave_host_call("calls std::terminate because of an exception, `" + text_of_exception() +
                        "` (does it leave a destructor, or another function that is noexcept?)");
    }
    otherwise ? otherwise() : abort();
}

// What the C++ library knows of the exceptions that a CPU thread handles (Itanium C++ ABI, "Exception Handling", 2.2.2).
struct Exceptions {
    void* handled;
    unsigned int thrown;
};
static Exceptions& exceptions() { return *reinterpret_cast<Exceptions*>(abi::__cxa_get_globals()); }

// ---- the call -------------------------------------------------------------------------------------------------------

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

// Whether `run(data)` returns; otherwise the call has been left.
static bool guarded(HostCall& call, void (*run)(void*), void* data) {
    static const bool installed = (otherwise = std::set_terminate(on_terminate), true);
    (void)installed;
    static thread_local const std::unique_ptr<char[]> signal_stack(new char[SignalStack::bytes]);
    Handlers handlers;
    SignalStack stack(signal_stack.get());
    struct Current {
        explicit Current(HostCall& call) { host_call = &call; }
        ~Current() { host_call = host_call->outer; }
    } current(call);
    const Exceptions before = exceptions();
    if (_setjmp(call.place) == 0) {
        run(data);
        return true;
    }
    exceptions() = before;
    leave_callback();
    return false;
}

const char* called_from_python(const char* function, const void* code, void (*run)(void*), void* data) {
    static thread_local std::string error;
    HostCall call{function, library_of(code), here, host_call, getpid()};
    StackLimit limit;
    struct Over {
        const HostCall& call;
        ~Over() {
            if (!call.threads) return;
            std::lock_guard lock(call.threads->mutex);
            call.threads->over = true;
            if (tracing) trace_untraced(*tracing, call.threads->untraced);
        }
    } over{call};
    const bool whole = guarded(call, run, data);
    error = call.error;
    if (call.threads) {
        std::lock_guard lock(call.threads->mutex);
        if (!call.threads->error.empty()) error = call.threads->error;
    }
    return whole && error.empty() ? nullptr : error.c_str();
}

// ---- the function's own threads -------------------------------------------------------------------------------------

#if defined(__linux__) && defined(__GLIBCXX__)
// What a std::thread runs. The library's own `std::thread::_State`, of which this is the layout, is private since g++ 13.
struct ThreadState {
    virtual ~ThreadState() = default;
    virtual void run() = 0;
};

class GuardedThread : public ThreadState {
    std::unique_ptr<ThreadState> inner;
    const std::string function;
    const Library library;
    const std::shared_ptr<HostThreads> threads;

    void run_inner() {
        try {
            inner->run();
        } catch (const abi::__forced_unwind&) {  // pthread_exit
            throw;
        } catch (...) {
            host_call->error = function + " throws in a std::thread, where nobody catches it: " + text_of_exception();
        }
    }

   public:
    GuardedThread(ThreadState* inner, const HostCall& call)
        : inner(inner), function(call.function), library(call.library), threads(call.threads) {
        std::lock_guard lock(threads->mutex);
        threads->running++;
    }
    void run() override {
        HostCall call{function.c_str(), library, here, nullptr, getpid(), true, threads};
        struct End {
            HostCall& call;
            ~End() { call.threads->end(call.error); }
        } end{call};
        if (!guarded(call, [](void* self) { static_cast<GuardedThread*>(self)->run_inner(); }, this))
            inner.release();  // the thread was in the middle of it
    }
};

#define CUDA_ON_CPU_START_THREAD _ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE
#define CUDA_ON_CPU_TEXT_OF(name) #name
#define CUDA_ON_CPU_TEXT(name) CUDA_ON_CPU_TEXT_OF(name)
#define CUDA_ON_CPU_WRAP_OF(name) __wrap_##name
#define CUDA_ON_CPU_WRAP(name) CUDA_ON_CPU_WRAP_OF(name)
// The second argument is a std::unique_ptr, which the ABI passes as a pointer to it.
extern "C" void start_thread(std::thread*, ThreadState**, void (*)()) __asm__(CUDA_ON_CPU_TEXT(CUDA_ON_CPU_START_THREAD));

static std::atomic<bool> program_has_threads{false};
bool host_threads_run() {
    if (!in_host_call() || !host_call->threads) return program_has_threads;
    std::lock_guard lock(host_call->threads->mutex);
    return host_call->threads->running;
}

// The linker puts it in the place of the C++ library's (build.py).
extern "C" void CUDA_ON_CPU_WRAP(CUDA_ON_CPU_START_THREAD)(std::thread* self, ThreadState** state, void (*depend)()) {
    if (!in_host_call()) {
        if (in_program) program_has_threads = true;
        return start_thread(self, state, depend);
    }
    HostCall& call = *host_call;
    if (!call.threads) call.threads.reset(new HostThreads{tracing != nullptr});
    auto threads = call.threads;
    *state = new GuardedThread(*state, call);
    try {
        start_thread(self, state, depend);
    } catch (...) {
        threads->end("");
        throw;
    }
}
#else
bool host_threads_run() { return false; }
#endif

}  // namespace cuda_on_cpu
