// What a trace knows of clusters: their barrier, which orders their blocks, barriers in memory at which a peer's threads
// arrive, and whether a peer has begun and has not ended where its shared memory is touched.
#include "../runtime/clusters.h"

#include <utility>

#include "recorder.h"

namespace cuda_on_cpu {

// ---- the barrier ----------------------------------------------------------------------------------------------------

void trace_cluster_begins(Trace& t, Cluster& c) {
    auto order = std::make_shared<ClusterOrder>();
    std::vector<uint32_t> numbers;
    for (Block* b : c.blocks) {
        numbers.push_back(uint32_t(b->number));
        b->traced->order.begin_cluster(order);
    }
    order->begin(std::move(numbers), c.blocks[0]->threads);
}

void trace_cluster_arrives(Trace& t, Block& b, bool releases) {
    t.order.cluster_arrives(b.traced->order, b.rank, b.running->number, releases);
}

// PTX lets threads leave before the barrier; the functions of CUDA C++ want all of them.
static void look_for_missing(Trace& t, Cluster& c) {
    for (Block* b : c.blocks)
        for (Fiber* f = b->at_cluster.first; f; f = f->next) {
            if (std::string(f->function).find("cluster.") != 0) continue;
            for (Block* other : c.blocks)
                for (unsigned int i = 0; i < other->threads; i++)
                    if ((other->warps[i / 32].ended >> i % 32 & 1) && !other->traced->threads[i].stopped)
                        return divergence(t, *b, *f, gone(*other, i));
            return;
        }
}

void trace_cluster_barrier_opens(Trace& t, Cluster& c) {
    look_for_missing(t, c);
    for (Block* b : c.blocks) {
        const bool all = b->at_cluster.length + (b == &block()) >= b->alive;  // stand at the barrier
        for (unsigned int warp = 0; warp * 32 < b->threads; warp++) t.drain(*b, warp, all);
    }
    c.blocks[0]->traced->order.cluster->opens();
    ++t.order.now;
}

void trace_cluster_waited(Trace& t, Block& b) {
    BlockOrder& order = b.traced->order;
    uint32_t& known = order.cluster_phases[b.running->number];
    known = std::max(known, order.cluster->phases);
    ++t.order.now;
}

// ---- a peer's shared memory -----------------------------------------------------------------------------------------

static void report(Trace& t, const char* text, const Party& who, Block& peer, const Region* region, uintptr_t a,
                   size_t bytes) {
    Problem p;
    p.kind = "cluster";
    p.text = text;
    p.who = who;
    p.bytes = bytes;
    p.other = {0, Op::load, peer.block, {}, true};
    p.has_other = true;
    place_in(p, region, a);
    t.add(std::move(p));
}

void Trace::reaches(Block& b, Block& peer, uintptr_t a, size_t bytes, const Party& who, unsigned int thread,
                    const Region& region) {
    if (stopped) return;
    TracedBlock& tp = *peer.traced;
    if (!b.traced->order.knows_of(thread, uint32_t(peer.number)))
        report(*this, "may not have begun", who, peer, &region, a, bytes);
    else if (peer.alive == 0)
        report(*this, "has ended", who, peer, &region, a, bytes);
    else if (!who.by)  // what acts for it is known by the barrier that counts it
        tp.reached[b.rank << 16 | thread] = {{order.now, uint32_t(b.number), uint16_t(thread), 0}, who, a, bytes};
}

// All its threads have ended, and nothing says that a peer which has touched its memory did so before.
static void block_ends(Trace& t, Block& b) {
    TracedBlock& tb = *b.traced;
    for (const auto& [by, reach] : tb.reached) {
        bool known = t.stopped;
        for (unsigned int i = 0; i < b.threads && !known; i++) known = t.order.knows_that(reach.record, tb.order, i);
        if (known) continue;
        report(t, "may have ended", reach.who, b, t.find_shared(b, reach.address, reach.bytes), reach.address, reach.bytes);
        break;
    }
    tb.reached.clear();
}

void trace_cluster_thread_ends(Trace& t, Block& b, Fiber& fiber, bool waited) {
    if (!waited && !t.stopped) {
        Problem p;
        p.kind = "cluster";
        p.text = "does not wait";
        p.who = party(b, fiber, fiber.arrived_code);
        t.add(std::move(p));
    }
    t.order.cluster_arrives(b.traced->order, b.rank, fiber.number, true);
    if (b.alive == 0) block_ends(t, b);
}

}  // namespace cuda_on_cpu
