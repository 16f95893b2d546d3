// Pages that no thread may touch, around a module's variables (launch.h).
#include <sys/mman.h>

#include <map>
#include <mutex>

#include "runtime.h"

namespace cuda_on_cpu {

static std::mutex guards_mutex;
static std::map<uintptr_t, uintptr_t>& guards() {  // where they begin and end
    static auto& all = *new std::map<uintptr_t, uintptr_t>;
    return all;
}
void guard_variables(char* before, char* behind) {
    constexpr size_t bytes = 48 << 20;
    std::lock_guard lock(guards_mutex);
    auto& all = guards();  // without those of a module that was there before
    all.erase(all.lower_bound(uintptr_t(before)), all.lower_bound(uintptr_t(behind) + bytes));
    for (char* pages : {before, behind})
        if (size_t(pages) % page_bytes() == 0 && mprotect(pages, bytes, PROT_NONE) == 0)
            all[uintptr_t(pages)] = uintptr_t(pages) + bytes;
}

std::vector<std::pair<uintptr_t, uintptr_t>> outside_guards(uintptr_t begin, uintptr_t end) {
    std::vector<std::pair<uintptr_t, uintptr_t>> parts;
    std::lock_guard lock(guards_mutex);
    for (auto [from, to] : guards()) {
        if (from < begin || from >= end) continue;
        if (from > begin) parts.emplace_back(begin, from);
        begin = std::min(to, end);
    }
    if (begin < end) parts.emplace_back(begin, end);
    return parts;
}

}  // namespace cuda_on_cpu
