// A launch that is made again, to see whether values matter that nobody has set. Where the outcome with other values in
// their place is the same, nobody uses them: many a kernel copies such an element, or shuffles from a lane that has left.
//
// All memory that a kernel can write is kept when the launch begins; of what a launch leaves behind, only the pieces that
// differ from that. In the end they are as they were after the first time. While the launch is made again, accesses are
// checked, but nothing is recorded (Trace::again).
#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "state.h"

namespace cuda_on_cpu {

static constexpr size_t most_kept = 64 << 20;  // bytes; a launch with more of them is not made again,
static constexpr size_t few = 4 << 20;         // nor with more than these, except each kernel's 1st, 2nd, 4th, 8th ...
static constexpr uint64_t enough = 300'000;  // accesses and basic blocks: of a longer launch, the first blocks and the last
static constexpr uint64_t other_absent = 0xCBCBCBCBCBCBCBCB;  // unlike the runtime's poison in every bit that counts

// What else variables hold. As floating-point numbers of any size, and in structs, they are positive, negative and zero;
// as integers, zero and negative. The last are only for modules that have others than integers.
struct Values {
    uint64_t any, integers;
};
static constexpr Values others[] = {
    {0x4700'4700'4700'4700, 0}, {0xC700'C700'C700'C700, ~unset_integer}, {0, ~unset_integer}};

// What is other than the first time: what a shuffle gets from a lane that has not come, what shared memory begins with, and
// what variables with numbers from `first` until `end` hold.
struct Changes {
    uint64_t absent = poison, fresh = poison;
    Values unset{};
    unsigned int first = 0, end = 0;
};

// A piece of memory that is not as it was when the launch began.
struct Piece {
    uintptr_t begin;
    size_t bytes;
    const char* before;
    size_t at;  // in Changed::bytes
};
struct Changed {
    std::vector<Piece> pieces;
    std::vector<char> bytes;
    bool operator==(const Changed& other) const {
        auto same = [](const Piece& x, const Piece& y) { return x.begin == y.begin && x.bytes == y.bytes; };
        const auto &mine = pieces, &others = other.pieces;
        return bytes == other.bytes && std::equal(mine.begin(), mine.end(), others.begin(), others.end(), same);
    }
};

struct Outcome {
    Changed memory;
    std::string printed;
    uint64_t noted;
};

struct Part {
    uintptr_t begin, end;
};
struct Beginning {
    std::vector<Part> parts;  // of memory: tensors, and the module's variables
    std::vector<std::vector<char>> before;
    size_t regions, listed;  // so many were there, and in Trace::problems;
    uint64_t problems;       // so many had been found
};

static std::vector<Part> parts_of(const Trace& t) {
    std::vector<Part> all;
    for (const auto& r : t.regions) all.push_back({r->begin, r->end});
    for (auto [begin, end] : t.writable) all.push_back({begin, end});
    std::sort(all.begin(), all.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
    std::vector<Part> apart;
    for (const Part& part : all) {
        if (!apart.empty() && part.begin <= apart.back().end)
            apart.back().end = std::max(apart.back().end, part.end);
        else
            apart.push_back(part);
    }
    return apart;
}

// Calls `each` for every tensor and variable, with what it held.
template <class Each>
static void each_region(const Trace& t, const Beginning& b, Each each) {
    auto one = [&](Region& r) {
        for (size_t i = 0; i < b.parts.size(); i++)
            if (const Part& part = b.parts[i]; r.begin >= part.begin && r.end <= part.end)
                each(r, b.before[i].data() + (r.begin - part.begin));
    };
    for (const auto& r : t.regions) one(*r);
    for (const auto& r : t.variables)
        if (r->space != Space::constant) one(*r);
}

// Calls `each` for every piece that has changed.
template <class Each>
static void each_change(const Trace& t, const Beginning& b, Each each) {
    each_region(t, b, [&](const Region& r, const char* before) {
        constexpr size_t piece = 4096;
        for (uintptr_t a = r.begin; a < r.end; a += piece, before += piece) {
            const size_t bytes = std::min<size_t>(piece, r.end - a);
            if (memcmp(reinterpret_cast<const char*>(a), before, bytes)) each(a, bytes, before);
        }
    });
}

static Changed changed(const Trace& t, const Beginning& b) {
    Changed all;
    each_change(t, b, [&](uintptr_t a, size_t bytes, const char* before) {
        all.pieces.push_back({a, bytes, before, all.bytes.size()});
        const char* now = reinterpret_cast<const char*>(a);
        all.bytes.insert(all.bytes.end(), now, now + bytes);
    });
    return all;
}

// Memory that is as it was may be read-only, and is left alone.
static void undo(const std::vector<Piece>& pieces) {
    for (const Piece& p : pieces) memcpy(reinterpret_cast<char*>(p.begin), p.before, p.bytes);
}
static void redo(const Changed& all) {
    for (const Piece& p : all.pieces) memcpy(reinterpret_cast<char*>(p.begin), &all.bytes[p.at], p.bytes);
}

// What `all` has of memory that began with the bytes `before`.
static std::vector<char> contents(const Changed& all, uintptr_t begin, size_t size, const char* before) {
    std::vector<char> found(before, before + size);
    for (const Piece& p : all.pieces) {
        const uintptr_t from = std::max(p.begin, begin), to = std::min(p.begin + p.bytes, begin + size);
        if (from < to) memcpy(&found[from - begin], &all.bytes[p.at + (from - p.begin)], to - from);
    }
    return found;
}

std::shared_ptr<Beginning> trace_beginning(Trace& t, const char* kernel, const void* code) {
    t.look_at_module(code);
    for (Problem& p : t.problems) p.suspect = false;  // a launch that could not be made again has left it so
    if (!t.beginning || t.beginning.use_count() > 1) t.beginning = std::make_shared<Beginning>();
    auto b = t.beginning;  // its memory serves again: the system would clear new pages first
    b->parts = parts_of(t);
    size_t bytes = 0;
    for (const Part& part : b->parts) bytes += part.end - part.begin;
    const uint64_t number = ++t.launches[kernel];
    if (t.recorder || host_threads_run() || bytes > most_kept || (bytes > few && (number & (number - 1)))) return nullptr;
    try {
        b->before.resize(b->parts.size());
        for (size_t i = 0; i < b->parts.size(); i++)
            b->before[i].assign(reinterpret_cast<char*>(b->parts[i].begin), reinterpret_cast<char*>(b->parts[i].end));
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
    b->regions = t.regions.size();
    b->listed = t.problems.size();
    b->problems = t.total;
    t.first_blocks = 0;
    t.enough = t.pulse + enough;
    return b;
}

namespace {
// Makes one launch again and again.
class Again {
public:
    Again(Trace& t, const Beginning& beginning, const std::string& printed, uint64_t blocks,
          const std::function<std::string(uint64_t)>& make)
        : t(t), beginning(beginning), blocks(std::min(blocks, t.first_blocks + 1)), make(make),
          first{changed(t, beginning), printed, 0} {
        now = first.memory.pieces;
        is_whole = this->blocks == blocks && t.total == beginning.problems;
    }
    ~Again() {
        go_back();
        redo(first.memory);
    }

    // Whether it has another outcome then.
    bool matters(const Changes& change) {
        other = made(change);
        if (t.divided || (is_whole && equal(other, first))) return false;
        if (!same) same = made({});
        if (equal(other, *same)) return false;
        if (!repeats) repeats = equal(made({}), *same);  // not with a clock, for example
        return *repeats;
    }
    // Whether the last two outcomes differ in these bytes.
    bool differs_at(uintptr_t a, size_t bytes) const {
        for (size_t i = 0; i < beginning.parts.size(); i++)
            if (const Part& part = beginning.parts[i]; a >= part.begin && a + bytes <= part.end) {
                const char* before = &beginning.before[i][a - part.begin];
                return contents(other.memory, a, bytes, before) != contents(same->memory, a, bytes, before);
            }
        return false;
    }
    const Outcome& with() const { return other; }
    const Outcome& without() const { return *same; }

private:
    // Memory is as it was when the launch began.
    void go_back() {
        if (now)
            undo(*now);
        else
            each_change(t, beginning, [](uintptr_t a, size_t bytes, const char* before) {
                memcpy(reinterpret_cast<char*>(a), before, bytes);
            });
        now.reset();
    }
    bool equal(const Outcome& x, const Outcome& y) const {
        return x.noted == y.noted && x.printed == y.printed && x.memory == y.memory;
    }
    Outcome made(const Changes& change) {
        Units units = t.units;
        Tiles tiles = t.tiles;
        const auto before = std::tuple(t.threads, t.stopped, t.over, t.unfinished);
        go_back();
        choose_unset(change.unset.any, change.unset.integers, change.first, change.end);
        t.absent = change.absent;
        t.fresh = change.fresh;
        t.again = true;
        t.stopped = t.over = t.divided = false;
        t.noted = 0;
        Outcome outcome{{}, make(blocks), t.noted};
        t.again = false;
        t.absent = t.fresh = poison;
        std::tie(t.threads, t.stopped, t.over, t.unfinished) = before;
        std::swap(t.units, units);
        std::swap(t.tiles, tiles);
        choose_unset(0, 0, 0, 0);
        outcome.memory = changed(t, beginning);
        now = outcome.memory.pieces;
        return outcome;
    }

    Trace& t;
    const Beginning& beginning;
    const uint64_t blocks;
    const std::function<std::string(uint64_t)>& make;
    const Outcome first;
    bool is_whole;
    Outcome other;
    std::optional<Outcome> same;
    std::optional<bool> repeats;
    std::optional<std::vector<Piece>> now;  // what has changed; if that is not known, it has to be looked up
};
}  // namespace

// The number of a variable whose value `matters` by itself, to the launch or to a part of what it does; 0 if it takes
// several.
template <class Matters>
static unsigned int variable_that_matters(Values values, Matters matters) {
    unsigned int from = 0, to = most_unset;
    while (to - from > 1) {
        const unsigned int middle = from + (to - from) / 2;
        if (matters({.unset = values, .first = from, .end = middle}))
            to = middle;
        else if (matters({.unset = values, .first = middle, .end = to}))
            from = middle;
        else
            return 0;  // only together
    }
    return matters({.unset = values, .first = from, .end = to}) ? from : 0;
}

// The first element that depends on what nobody has set, and who has written it.
static void place_difference(Trace& t, const Beginning& beginning, const Again& again, dim3 block, Problem& p) {
    each_region(t, beginning, [&](Region& r, const char* before) {
        if (p.in_region) return;
        const auto without = contents(again.without().memory, r.begin, r.end - r.begin, before);
        const auto with = contents(again.with().memory, r.begin, r.end - r.begin, before);
        const auto differs = std::mismatch(without.begin(), without.end(), with.begin()).first;
        if (differs == without.end()) return;
        const size_t offset = (differs - without.begin()) / r.element * r.element;
        p.bytes = r.element;
        place_in(p, &r, r.begin + offset);
        const Record by = r.memory->shadow.wrong_write(r.begin + offset - r.memory->begin, r.element, 1,
                                                       [](const Record&) { return true; });
        const Site& site = t.requests.sites[by.site];
        if (!by.time || by.thread >= block.x * block.y * block.z) return;
        const uint3 thread{by.thread % block.x, by.thread / block.x % block.y, by.thread / block.x / block.y};
        p.who = {site.code, site.op, block_place(t.grid, by.block), thread, false};
    });
}

// What goes wrong only because of such a value comes behind the problem that says so.
static void add_before(Trace& t, size_t place, Problem p) {
    t.total++;
    for (auto& [key, at] : t.known) at += at >= place;
    t.known[{p.kind, p.who.code, p.declared, p.region}] = place;
    t.problems.insert(t.problems.begin() + place, std::move(p));
}

// The problems of a kind that are mistakes only if something `matters`.
template <class Matters>
static void settle(Trace& t, const char* kind, Matters matters) {
    std::optional<bool> known;
    for (Problem& p : t.problems) {
        if (!p.suspect || p.unset || p.kind != kind) continue;
        if (!known) known = matters();
        p.suspect = false;
        p.harmless = !*known;
    }
}

static void decide(Trace& t, const Beginning& beginning, const Launch& launch, const std::string& printed,
                   const std::function<std::string(uint64_t)>& make) {
    auto suspects = std::exchange(t.suspects, {});
    if (interrupted || t.regions.size() != beginning.regions || !t.first_blocks) return;  // it may keep what malloc gave
    Again again(t, beginning, printed, uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z, make);
    settle(t, "undefined_shuffle", [&] { return again.matters({.absent = other_absent}); });
    settle(t, "uninitialized", [&] {
        return again.matters({.fresh = others[0].any}) || again.matters({.fresh = others[1].any});
    });
    const std::optional<bool> integers = unset_between(t.module_begin, t.module_end);
    if (!integers) return;
    std::vector<Problem*> stored;  // what looks like such a value
    for (Problem& p : t.problems)
        if (p.unset && p.suspect) stored.push_back(&p);
    const bool known = std::any_of(stored.begin(), stored.end(), [](const Problem* p) { return p->certain; });
    for (size_t i = 0; i < (*integers ? 2 : 3); i++) {
        const Values& values = others[i];
        if (!again.matters({.unset = values, .end = most_unset})) continue;
        for (Problem* p : stored) {
            p->certain = true;
            if (p->text.empty() && p->space == Space::global)
                p->declared = variable_that_matters(values, [&](const Changes& change) {
                    return again.matters(change) && again.differs_at(p->address, p->bytes);
                });
            p->depends = p->declared;
            if (p->declared) break;  // one name will do
        }
        if (!stored.empty()) return;
        for (Problem& p : suspects) {
            p.suspect = false;
            p.certain = true;
            t.add(std::move(p));
        }
        if (!suspects.empty()) return;
        Problem p;
        p.kind = "uninitialized";
        p.unset = p.certain = p.depends = true;
        p.declared = variable_that_matters(values, [&](const Changes& change) { return again.matters(change); });
        if (!p.declared) again.matters({.unset = values, .end = most_unset});
        place_difference(t, beginning, again, launch.block, p);
        return add_before(t, beginning.listed, std::move(p));
    }
    for (Problem* p : stored) p->harmless = !known;
    settle(t, "undefined", [] { return false; });
}

void trace_again(Trace& t, const Beginning& beginning, const Launch& launch, const std::string& printed,
                 const std::function<std::string(uint64_t)>& make) {
    try {
        decide(t, beginning, launch, printed, make);
    } catch (const std::bad_alloc&) {  // no room for what it has to compare
    }
}

}  // namespace cuda_on_cpu
