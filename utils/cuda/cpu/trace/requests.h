// Counting what a warp's accesses cost: requests, sectors and wavefronts, as Nsight Compute counts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda_runtime.h"
#include "flow.h"

namespace cuda_on_cpu {

enum class Space : uint8_t { global, shared, constant, local };
enum class Op : uint8_t { load, store, atomic, none };  // none: a basic block began
// strong: an ordered access, such as ld.acquire; of_block: an ordered access or an atomic, for the threads of a block.
enum class Strength : uint8_t { weak, of_volatile, strong, of_block };

// What a thread did, in its order.
struct Event {
    uint64_t address : 48;
    uint64_t other : 16;  // of an asynchronous copy: where its other end is, in words of 4 bytes, modulo 65,536
    uint32_t code;  // where, from the start of the module
    uint16_t site;  // of an access; for a basic block its number in the flow
    uint8_t bytes;
    uint8_t kind;  // Op, and four times the depth of calls
};

// As the `copy` of a Site: it is none, but rows of 16 bytes that ldmatrix or stmatrix moves, to or from the lanes' rows
// or columns.
constexpr unsigned int matrix_rows = 1, matrix_columns = 2;
constexpr bool is_copy(unsigned int copy) { return copy > matrix_columns; }

// One access of the source: a place in the code, a space, a width.
struct Site {
    uintptr_t code = 0;
    Space space = Space::global;
    Op op = Op::load;
    unsigned int bytes = 0;
    unsigned int copy = 0;  // the bytes of the asynchronous copy of which this is one end, or of matrices
    Strength strength = Strength::weak;
    std::string name;  // of the tensor or variable that it touched first,
    uintptr_t base = 0;  // its address,
    size_t element = 1;  // and the size of its elements

    uint64_t accesses = 0, requests = 0, sectors = 0, wavefronts = 0, least_wavefronts = 0;
    struct {
        uint64_t block = 0;
        unsigned int warp = 0, lanes = 0;
        uint64_t cost = 0, address[32];
        uint16_t other[32];  // as in Event
    } example;  // of the first warp that came here: its most expensive request
};

class Requests {
public:
    // Is notified of every step of a warp: what its lanes did together, and what that cost.
    struct Observer {
        virtual ~Observer() = default;
        virtual void counted(const Site& site, unsigned int lanes, uint64_t block, unsigned int warp, uint64_t sectors,
                             uint64_t wavefronts, uint64_t least_wavefronts) = 0;
    };
    Observer* observer = nullptr;

    static constexpr size_t most_events = 4096;  // kept for one thread

    std::vector<Site> sites{1};  // number 0 is none
    Flow flow;

    uint16_t site(uintptr_t code, Space space, Op op, size_t bytes, size_t copy, const std::string& name,
                  uintptr_t base, size_t element) {
        Recent& r = recent[code % recent_places];
        if (r.code == code && r.space == space && r.op == op && r.bytes == bytes && r.copy == copy) return r.site;
        return look_up(code, space, op, bytes, copy, name, base, element);
    }
    // The memory that a place in the code touched last, if the caller has noted it there.
    struct Last {
        uintptr_t place = 0;
        void* memory = nullptr;
    };
    Last& last(uintptr_t place) {
        Last& found = memory[place % recent_places];
        if (found.place != place) found = {place, nullptr};
        return found;
    }
    void forget_memory();

    // Counts and forgets the events of a warp's lanes. The lanes of `may_go_on` will bring more: nothing is counted in
    // which such a lane may still take part.
    struct Lane {
        std::vector<Event> events;
        uint16_t block[64] = {};  // by depth of calls: where it was when its last event was counted
    };
    void count(Lane* (&lanes)[32], unsigned int may_go_on, uint64_t block, unsigned int warp, uintptr_t arena);

private:
    static constexpr size_t recent_places = 4093;
    struct Recent {
        uintptr_t code = 0;
        Space space;
        Op op;
        uint32_t bytes, copy;
        uint16_t site;
    };
    std::vector<Recent> recent{recent_places};
    std::vector<Last> memory{recent_places};
    std::unordered_map<uint64_t, uint16_t> numbers;

    uint16_t look_up(uintptr_t code, Space space, Op op, size_t bytes, size_t copy, const std::string& name,
                     uintptr_t base, size_t element);
    void request(Site& site, const uint64_t (&address)[32], const uint16_t (&other)[32], unsigned int lanes,
                 uint64_t block, unsigned int warp, uintptr_t arena);
};

}  // namespace cuda_on_cpu
