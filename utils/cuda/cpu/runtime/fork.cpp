// A process that forks while other threads of it launch kernels, as with multiprocessing.
//
// Only the thread that forks goes on in the child. What other threads held would stay locked there forever, half
// written, and what they had begun would never end. So a fork waits until no thread holds a mutex, and the child
// forgets their launches.
#include "runtime.h"

namespace cuda_on_cpu {

static std::vector<Mutex*>& mutexes() {
    static auto* all = new std::vector<Mutex*>;  // never destroyed: a process may fork until its very end
    return *all;
}

static void lock_all() {
    for (Mutex* mutex : mutexes()) mutex->lock();
}

static void unlock_all() {
    for (Mutex* mutex : mutexes()) mutex->unlock();
}

static void begin_child() {
    unlock_all();
    forget_launches();
    forget_workers();
    forget_helpers();
}

static const int at_fork = pthread_atfork(lock_all, unlock_all, begin_child);

Mutex::Mutex() { mutexes().push_back(this); }

}  // namespace cuda_on_cpu
