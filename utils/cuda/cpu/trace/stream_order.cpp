// See stream_order.h. host/ says when work begins, and who waits for what.
#include "stream_order.h"

#include <sys/mman.h>

#include <algorithm>

#include "state.h"

namespace cuda_on_cpu {

StreamCells::StreamCells(size_t bytes) : count(bytes / 4 + 1) {
    void* pages = mmap(nullptr, count * sizeof(StreamCell), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cells = pages == MAP_FAILED ? nullptr : static_cast<StreamCell*>(pages);
}

StreamCells::~StreamCells() {
    if (cells) munmap(cells, count * sizeof(StreamCell));
}

// ---- the order ------------------------------------------------------------------------------------------------------

static void learn(StreamTimes& all, const StreamTimes& more) {
    if (all.size() < more.size()) all.resize(more.size());
    for (size_t i = 0; i < more.size(); i++) all[i] = std::max(all[i], more[i]);
}

StreamTimes StreamOrder::times_of(StreamId stream) const {
    StreamTimes times;
    auto add = [&](const auto& of) {
        const auto& [id, its] = of.second;
        const bool same = id.number == stream.number;
        if (same || (!stream.number && id.blocking) || (!id.number && stream.blocking)) learn(times, its);
    };
    for (const auto& of : known) add(of);
    return times;
}

void StreamOrder::begin(StreamId stream, std::string name, uintptr_t code) {
    StreamTimes times = times_of(stream);
    learn(times, of_host);
    all.push_back({stream, times, std::move(name), code});
    current = uint32_t(all.size());
    if (times.size() <= stream.number) times.resize(stream.number + 1);
    times[stream.number] = current;
    known[stream.number] = {stream, std::move(times)};
}

void StreamOrder::stream_waits(StreamId stream, const StreamTimes& times) {
    auto& [id, its] = known[stream.number];
    id = stream;
    learn(its, times);
}

void StreamOrder::host_waits(const StreamTimes& times) { learn(of_host, times); }

void StreamOrder::host_waits_for_all() {
    for (const auto& [_, of] : known) learn(of_host, of.second);
}

// ---- what work touches ----------------------------------------------------------------------------------------------

bool StreamOrder::races(uint32_t earlier, unsigned char touched, unsigned char mask) const {
    if (!earlier || earlier == current || !(touched & mask)) return false;
    const StreamTimes& before = work(current).before;
    const unsigned int stream = work(earlier).stream.number;
    return stream >= before.size() || before[stream] < earlier;
}

bool StreamOrder::host_knows(const StreamCells& cells, size_t offset, size_t bytes) const {
    bool knows = true;
    cells.each(offset, bytes, [&](const StreamCell& c, unsigned char mask) {
        auto look = [&](uint32_t last, unsigned char touched) {
            if (!last || !(touched & mask)) return;
            const unsigned int stream = work(last).stream.number;
            knows = knows && stream < of_host.size() && of_host[stream] >= last;
        };
        look(c.write, c.write_mask);
        look(c.atomic, c.atomic_mask);
    });
    return knows;
}

std::pair<uint32_t, Op> StreamOrder::touch(const StreamCells& cells, size_t offset, size_t bytes, Op op) {
    std::pair<uint32_t, Op> found{0, Op::none};
    cells.each(offset, bytes, [&](StreamCell& c, unsigned char mask) {
        auto look = [&](uint32_t earlier, unsigned char touched, Op did) {
            if (!found.first && races(earlier, touched, mask)) found = {earlier, did};
        };
        auto note = [&](uint32_t& last, unsigned char& touched) {
            touched = last == current ? touched | mask : mask;
            last = current;
        };
        auto is_noted = [&](uint32_t last, unsigned char touched) { return last == current && !(mask & ~touched); };
        if (op == Op::load) {
            const bool second = c.read[0] && c.read[0] != current && races(c.read[0], 0xF, 0xF);
            if (is_noted(c.read[second], c.read_mask[second])) return;
            look(c.write, c.write_mask, Op::store);
            look(c.atomic, c.atomic_mask, Op::atomic);
            return note(c.read[second], c.read_mask[second]);
        }
        const bool atomic = op == Op::atomic;
        uint32_t& last = atomic ? c.atomic : c.write;
        unsigned char& touched = atomic ? c.atomic_mask : c.write_mask;
        if (is_noted(last, touched)) return;
        look(c.write, c.write_mask, Op::store);
        if (!atomic) look(c.atomic, c.atomic_mask, Op::atomic);
        for (int i = 0; i < 2; i++) look(c.read[i], c.read_mask[i], Op::load);
        note(last, touched);
    });
    return found;
}

void Trace::races_streams(Region& region, uintptr_t a, size_t bytes, Op op, Party who) {
    Memory& memory = *region.memory;
    if (!memory.of_streams) memory.of_streams = std::make_unique<StreamCells>(memory.bytes);
    const auto [other, did] = streams->touch(*memory.of_streams, a - memory.begin, bytes, op);
    if (!other) return;
    const auto &now = streams->work(streams->current), &before = streams->work(other);
    Problem p;
    p.kind = "stream_race";
    p.who = who;
    p.who.by = now.name.c_str();
    p.other.op = did;
    p.other.code = before.code;
    p.other.by = before.name.c_str();
    p.has_other = true;
    p.bytes = bytes;
    if (!before.stream.number || !now.stream.number) p.text = before.stream.number ? "default now" : "default before";
    place_in(p, &region, a);
    add(std::move(p));
}

// ---- what host/ reports ---------------------------------------------------------------------------------------------

bool trace_work_begins(StreamId stream, const std::string& name, const void* place) {
    if (!tracing || tracing->again || here) return false;
    if (!tracing->streams && !streams_exist()) return false;
    if (!tracing->streams) tracing->streams = std::make_unique<StreamOrder>();
    if (tracing->streams->current) return false;  // a graph's
    tracing->streams->begin(stream, name, place ? reinterpret_cast<uintptr_t>(place) : caller());
    return true;
}

void trace_work_ends() {
    if (tracing && tracing->streams) tracing->streams->current = 0;
}

void trace_moves(const void* p, size_t bytes, Access access) {
    if (!tracing || !tracing->streams || !tracing->streams->current || here) return;
    const StreamOrder& streams = *tracing->streams;
    const auto a = reinterpret_cast<uintptr_t>(p);
    const Op op = access == Access::load ? Op::load : Op::store;
    for (auto& r : tracing->regions)
        if (r->holds(a, bytes) && r->space == Space::global && r->memory)
            return tracing->races_streams(*r, a, bytes, op, {streams.work(streams.current).code, op});
}

StreamTimes trace_times(StreamId stream) {
    return tracing && tracing->streams ? tracing->streams->times_of(stream) : StreamTimes();
}

void trace_stream_waits(StreamId stream, const StreamTimes& times) {
    if (tracing && tracing->streams) tracing->streams->stream_waits(stream, times);
}

void trace_host_waits(const StreamTimes& times) {
    if (tracing && tracing->streams) tracing->streams->host_waits(times);
}

void trace_host_waits_for_all() {
    if (tracing && tracing->streams) tracing->streams->host_waits_for_all();
}

}  // namespace cuda_on_cpu
