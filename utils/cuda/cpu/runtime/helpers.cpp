// Threads of the CPU that help with launches. Each then waits for the next launch: to begin one takes 100 µs, as long as
// a small launch.
#include <algorithm>
#include <deque>

#include "../guard/space.h"
#include "runtime.h"

namespace cuda_on_cpu {

// What all of them share. Never destroyed: they wait there until the process ends.
struct Helpers::Room {
    std::mutex mutex;
    std::condition_variable called, finished;
    std::deque<std::pair<Helpers*, uint64_t>> calls;  // not answered yet, each with its number
    size_t idle = 0;  // threads that wait for a call, or are about to

    void serve();
};

Helpers::Room* Helpers::room = new Room;

// A thread that waits for a call takes no signal that is meant for the program's own threads.
static const sigset_t& every_signal() {
    static const sigset_t all = [] {
        sigset_t set;
        sigfillset(&set);
        return set;
    }();
    return all;
}

void Helpers::Room::serve() {
    std::unique_lock lock(mutex);
    for (;;) {
        called.wait(lock, [&] { return !calls.empty(); });
        idle--;
        auto [launch, number] = calls.front();
        calls.pop_front();
        launch->at_work++;
        lock.unlock();
        fesetenv(&launch->arithmetic);
        pthread_sigmask(SIG_SETMASK, &launch->signals, nullptr);
        launch->work(number);
        pthread_sigmask(SIG_SETMASK, &every_signal(), nullptr);
        lock.lock();
        if (--launch->at_work == 0) finished.notify_all();
        if (!space_is_plentiful()) return;  // Python needs the room that their stacks take
        idle++;
    }
}

Helpers::Helpers(std::function<void(uint64_t)> work) : work(std::move(work)) {
    fegetenv(&arithmetic);
    pthread_sigmask(SIG_SETMASK, nullptr, &signals);
}

void Helpers::call(uint64_t number) {
    std::lock_guard lock(room->mutex);
    if (room->idle == room->calls.size()) {
        pthread_sigmask(SIG_SETMASK, &every_signal(), nullptr);  // a new thread begins with its maker's
        try {
            std::thread(&Room::serve, room).detach();
        } catch (...) {
            pthread_sigmask(SIG_SETMASK, &signals, nullptr);
            throw;
        }
        pthread_sigmask(SIG_SETMASK, &signals, nullptr);
        room->idle++;
    }
    room->calls.emplace_back(this, number);
    room->called.notify_one();
}

void Helpers::call_off() {
    std::lock_guard lock(room->mutex);
    std::erase_if(room->calls, [&](auto& call) { return call.first == this; });
}

Helpers::~Helpers() {
    std::unique_lock lock(room->mutex);
    auto waits = [&](auto& call) { return call.first == this; };
    room->finished.wait(lock, [&] {
        return !at_work && std::none_of(room->calls.begin(), room->calls.end(), waits);
    });
}

void forget_helpers() { Helpers::room = new Helpers::Room; }

}  // namespace cuda_on_cpu
