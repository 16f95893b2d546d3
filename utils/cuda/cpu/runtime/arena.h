// A block's shared memory (shared.cpp).
#pragma once

#include <cstddef>

namespace cuda_on_cpu {

// The shared memory of a block: static, then dynamic. It begins with bank 0, and no thread may touch the pages around
// it.
class Arena {
public:
    Arena() = default;
    ~Arena() { release(); }
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    // Only the pages with bytes `from` to `to` may be touched, and what `grow` has opened for the same user before.
    void make(size_t from, size_t to, const void* wanted_by);
    bool grow(size_t bytes);  // the pages with the first bytes too; false where there is no room
    unsigned char* get() const { return begin; }
    size_t size() const { return open.to; }
    bool holds(size_t at, size_t bytes) const {
        return at + bytes <= open.first || (at >= open.from && at + bytes <= open.to);
    }
    bool around(const void* p) const { return p >= begin - guard && p < begin + room + guard; }
    struct Open { size_t first = 0, from = 0, to = 0; };  // the first bytes, and others from here to there: whole pages
    Open is_open() const { return open; }

private:
    unsigned char* begin = nullptr;
    Open open;
    size_t room = 0, guard = 0;  // bytes that there is space for, and on either side
    const void* user = nullptr;
    void release();
};

}  // namespace cuda_on_cpu
