// Address space for memory that kernels use. Everything that a 32-bit index can reach from there is reserved, and no
// thread may touch it: so an access that is far off raises a signal, and hits nothing that Python or a library keeps.
//
// Reserved space takes no memory, but `ulimit -v` counts it. Under such a limit only the guards remain that each user
// of this space puts around its memory.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <vector>

namespace cuda_on_cpu {

// More than a 32-bit index can reach with elements of 16 bytes.
constexpr size_t far_apart = size_t(40) << 30;

inline size_t page_bytes() {
    static const size_t bytes = size_t(sysconf(_SC_PAGESIZE));
    return bytes;
}
inline size_t rounded_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

inline bool space_is_plentiful() {
    rlimit limit;
    return sizeof(void*) == 8 && getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

// Pages that no thread may touch; nullptr where there is no room for them.
inline char* reserve(size_t bytes, void* at = nullptr) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0);
    void* pages = mmap(at, bytes, PROT_NONE, flags, -1, 0);
    return pages == MAP_FAILED ? nullptr : static_cast<char*>(pages);
}

class AddressSpace {
public:
    // Whole pages, reserved; nullptr where there is no room.
    char* take(size_t bytes) {
        auto gap = fitting(bytes);
        if (gap == gaps.end() && space_is_plentiful()) {
            const size_t size = std::max(chunk, bytes);
            if (char* all = reserve(size + 2 * far_apart)) {
                chunks.emplace_back(all + far_apart, size);
                gap = gaps.emplace(all + far_apart, size).first;
            }
        }
        if (gap == gaps.end()) return reserve(bytes);
        auto [begin, size] = *gap;
        gaps.erase(gap);
        if (size > bytes) gaps.emplace(begin + bytes, size - bytes);
        return begin;
    }

    // What the pages held is lost.
    void give_back(char* begin, size_t bytes) {
        auto holds = [&](auto& chunk) { return begin >= chunk.first && begin < chunk.first + chunk.second; };
        if (std::none_of(chunks.begin(), chunks.end(), holds)) {
            munmap(begin, bytes);
            return;
        }
        reserve(bytes, begin);
        auto behind = gaps.upper_bound(begin);
        if (behind != gaps.end() && begin + bytes == behind->first) {
            bytes += behind->second;
            behind = gaps.erase(behind);
        }
        if (behind != gaps.begin())
            if (auto ahead = std::prev(behind); ahead->first + ahead->second == begin) {
                ahead->second += bytes;
                return;
            }
        gaps.emplace(begin, bytes);
    }

    bool holds(const char* address) const {  // or has reserved it around its own
        return std::any_of(chunks.begin(), chunks.end(), [&](auto& c) {
            return address >= c.first - far_apart && address < c.first + c.second + far_apart;
        });
    }

private:
    static constexpr size_t chunk = size_t(1) << 40;
    std::vector<std::pair<char*, size_t>> chunks;  // each between two stretches of `far_apart`
    std::map<char*, size_t> gaps;                  // in the chunks, by place

    std::map<char*, size_t>::iterator fitting(size_t bytes) {
        return std::find_if(gaps.begin(), gaps.end(), [&](auto& gap) { return gap.second >= bytes; });
    }
};

}  // namespace cuda_on_cpu
