// Clusters: where a block is in its cluster, the cluster's barrier, and addresses in a peer's shared memory.
#include "clusters.h"

#include <string>
#include <utility>

#include "cuda_on_cpu/clusters.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

// ---- places ---------------------------------------------------------------------------------------------------------

ClusterPlace place_in_cluster() {
    const Block& b = block();
    const dim3 given = b.worker->launch->cluster, dim = given.x ? given : dim3(1, 1, 1), grid = b.grid_dim;
    ClusterPlace place;
    place.dim = dim;
    place.block = {b.block.x % dim.x, b.block.y % dim.y, b.block.z % dim.z};
    place.rank = (place.block.z * dim.y + place.block.y) * dim.x + place.block.x;
    place.size = dim.x * dim.y * dim.z;
    place.grid = {grid.x / dim.x, grid.y / dim.y, grid.z / dim.z};
    place.cluster = {b.block.x / dim.x, b.block.y / dim.y, b.block.z / dim.z};
    place.is_explicit = given.x;
    return place;
}

void needs_cluster(unsigned int x, unsigned int y, unsigned int z) {
    Block& b = block();
    const dim3 dim = b.worker->launch->cluster;
    if (dim.x == x && dim.y == y && dim.z == z) return;
    Worker& w = *b.worker;
    w.in_kernel = 0;
    w.wanted_cluster = {x, y, z};
    w.fault = no_fault;
    leave_block(w);
}

Block* block_with(const void* address) {
    Block& b = block();
    if (b.arena.around(address)) return &b;
    if (b.cluster)
        for (Block* peer : b.cluster->blocks)
            if (peer->arena.around(address)) return peer;
    return nullptr;
}

bool is_cluster_shared(const void* p) { return block_with(p); }

static Block& owner(const void* address, const char* name) {
    Block& b = block();
    Block* of = block_with(address);
    b.worker->in_kernel = 0;
    if (!of) fail(wrong_cluster, std::string("calls ") + name + " of an address that is not in shared memory");
    enter_kernel(*b.worker);
    return *of;
}

void* map_shared_rank(const void* address, unsigned int rank, const char* name) {
    const Block& of = owner(address, name);
    Block& b = block();
    if (rank >= cluster_size(b)) {
        b.worker->in_kernel = 0;
        watch(b);
        b.running->code = __builtin_return_address(0);
        fail(wrong_cluster, std::string("calls ") + name + " for the block of rank " + std::to_string(int(rank)) + ", but its "
                                "cluster has " + (cluster_size(b) == 1 ? "one block, of rank 0" : std::to_string(cluster_size(b)) +
                                " blocks, of rank 0 to " + std::to_string(cluster_size(b) - 1)));
    }
    return moved(address, of, cluster_block(b, rank));
}

unsigned int query_shared_rank(const void* address, const char* name) { return owner(address, name).rank; }

constexpr uint32_t offset_bits = 24;

uint32_t cluster_number(const void* address) {
    const Block* of = block_with(address);
    const Block& b = block();
    if (!of || of == &b) return uint32_t(static_cast<const unsigned char*>(address) - b.arena.get());
    return (of->rank + 1) << offset_bits | uint32_t(static_cast<const unsigned char*>(address) - of->arena.get());
}

char* at_cluster_number(uint32_t at) {
    Block& b = block();
    const uint32_t above = at >> offset_bits;
    const bool peer = above && above <= cluster_size(b);
    const Block& of = peer ? cluster_block(b, above - 1) : b;
    return reinterpret_cast<char*>(of.arena.get()) + (peer ? at & ((1u << offset_bits) - 1) : at);
}

// ---- the barrier ----------------------------------------------------------------------------------------------------

// A block of a launch without clusters makes one when it needs it.
static Cluster& cluster_of(Block& b) {
    if (!b.cluster) {
        b.own_cluster = std::make_shared<Cluster>(Cluster{dim3(1, 1, 1), {&b}});
        b.cluster = b.own_cluster.get();
        if (b.worker->trace) trace_cluster_begins(*b.worker->trace, *b.cluster);
    }
    return *b.cluster;
}

static void open_if_complete(Worker& w, Cluster& c) {
    unsigned int alive = 0;
    for (const Block* b : c.blocks) alive += b->alive;
    if (c.arrived == 0 || c.arrived < alive) return;
    if (w.trace) trace_cluster_barrier_opens(*w.trace, c);
    c.arrived = 0;
    c.phase++;
    for (Block* b : c.blocks) b->ready.add_all(b->at_cluster);
}

static Fiber* enter(const char* name, const void* code) {
    Block& b = block();
    b.worker->in_kernel = 0;
    watch(b);
    b.running->function = name;
    b.running->code = code;
    return b.running;
}

void cluster_arrive(const char* name, bool releases) {
    Fiber* me = enter(name, __builtin_return_address(0));
    Block& b = block();
    Cluster& c = cluster_of(b);
    if (me->at_cluster_phase)
        fail(wrong_cluster, std::string("calls ") + name + " for the second time without a wait in between");
    me->at_cluster_phase = c.phase + 1;
    me->arrived_code = me->code;
    c.arrived++;
    if (b.worker->trace) trace_cluster_arrives(*b.worker->trace, b, releases);
    open_if_complete(*b.worker, c);
    enter_kernel(*b.worker);
}

void cluster_wait(const char* name) {
    Fiber* me = enter(name, __builtin_return_address(0));
    Block& b = block();
    Cluster& c = cluster_of(b);
    if (!me->at_cluster_phase)
        fail(wrong_cluster, std::string("calls ") + name + " without having arrived at the cluster's barrier");
    if (c.phase < me->at_cluster_phase) {
        me->waiting = Waiting::cluster;
        b.at_cluster.add(me);
        wait(me);
    }
    Block& after = my_block();
    me->at_cluster_phase = 0;
    if (after.worker->trace) trace_cluster_waited(*after.worker->trace, after);
    enter_kernel(*after.worker);
}

void cluster_thread_ends(Block& b, Fiber& fiber) {
    Cluster& c = *b.cluster;
    if (b.worker->trace) trace_cluster_thread_ends(*b.worker->trace, b, fiber, !fiber.at_cluster_phase);
    if (fiber.at_cluster_phase > c.phase) c.arrived--;
    fiber.at_cluster_phase = 0;
    open_if_complete(*b.worker, c);
}

}  // namespace cuda_on_cpu
