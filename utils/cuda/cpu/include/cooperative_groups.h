// Stands in for CUDA's header of this name when a source is compiled for the CPU.
//
// A group is the grid, a cluster of blocks, a block, or some lanes of one warp. Groups of lanes know their lanes as a mask, so that all they
// do together is one of the warp's functions with that mask.
#pragma once

#define _COOPERATIVE_GROUPS_H_  // by which sources ask whether this header was included
#include "cuda_on_cpu/clusters.h"
#include "cuda_on_cpu/device_functions.h"

namespace cooperative_groups {

namespace detail {
using ::cuda_on_cpu::from_lane;
using ::cuda_on_cpu::lane;
using ::cuda_on_cpu::lane_of_rank;
using ::cuda_on_cpu::rank_of_lane;

__forceinline__ dim3 grid_size() { return gridDim; }
__forceinline__ dim3 block_size() { return blockDim; }
__forceinline__ unsigned long long volume(dim3 d) { return (unsigned long long)d.x * d.y * d.z; }
__forceinline__ unsigned long long rank(dim3 at, dim3 size) {
    return ((unsigned long long)at.z * size.y + at.y) * size.x + at.x;
}
__forceinline__ unsigned int rank_in_block() { return rank(dim3(threadIdx), block_size()); }
// Of the caller's tile of several warps.
__forceinline__ void tile_barrier(unsigned int size, const char* name = "group.sync") {
    const unsigned int tile = rank_in_block() / size, left = (volume(block_size()) + 31) / 32 * 32 - tile * size;
    const unsigned int number = ::cuda_on_cpu::first_tile_barrier + 1024 / size - 1 + tile;
    ::cuda_on_cpu::named_barrier(number, left < size ? left : size, ::cuda_on_cpu::BarrierUse::sync, true, false, name);
}
template <class T>
CUDA_ON_CPU_OPAQUE void put_in_slot(const T& value) {
    __builtin_memcpy(::cuda_on_cpu::tile_slot(rank_in_block()), &value, sizeof(T));
}
template <class T>
CUDA_ON_CPU_OPAQUE T of_slot(unsigned int thread) {
    alignas(T) char bytes[sizeof(T)];
    __builtin_memcpy(bytes, ::cuda_on_cpu::tile_slot(thread), sizeof(T));
    return reinterpret_cast<const T&>(bytes);
}
__forceinline__ bool is_tile_size(unsigned int n) { return n && n <= 32 && (n & (n - 1)) == 0; }
}  // namespace detail

// What all groups have. A function that takes this takes any of them.
class thread_group {
  public:
    unsigned long long size() const {
        if (kind == Kind::lanes) return __builtin_popcount(mask);
        unsigned long long threads = detail::volume(detail::block_size());
        if (kind == Kind::cluster) return threads * ::cuda_on_cpu::place_in_cluster().size;
        return kind == Kind::block ? threads : threads * detail::volume(detail::grid_size());
    }
    unsigned long long num_threads() const { return size(); }
    unsigned long long thread_rank() const {
        if (kind == Kind::lanes) return detail::rank_of_lane(mask, detail::lane());
        unsigned long long in_block = detail::rank(dim3(threadIdx), detail::block_size());
        if (kind == Kind::block) return in_block;
        if (kind == Kind::cluster)
            return ::cuda_on_cpu::place_in_cluster().rank * detail::volume(detail::block_size()) + in_block;
        return detail::rank(dim3(blockIdx), detail::grid_size()) * detail::volume(detail::block_size()) + in_block;
    }
    __forceinline__ void sync() const {
        if (kind == Kind::lanes) return ::cuda_on_cpu::meet(mask, "group.sync");
        if (kind == Kind::block) return ::cuda_on_cpu::barrier("sync of the block");
        if (kind == Kind::grid) return ::cuda_on_cpu::grid_barrier();
        ::cuda_on_cpu::cluster_arrive("cluster.sync");
        ::cuda_on_cpu::cluster_wait("cluster.sync");
    }

  protected:
    enum class Kind { grid, cluster, block, lanes };
    explicit thread_group(Kind kind, unsigned int mask = 0) : kind(kind), mask(mask) {}
    friend thread_group tiled_partition(const thread_group& parent, unsigned int size);
    Kind kind;
    unsigned int mask;  // of the warp's lanes, where it is a group of lanes
};

class grid_group : public thread_group {
  public:
    struct arrival_token {};
    bool is_valid() const { return ::cuda_on_cpu::cooperative(); }
    __forceinline__ void sync() const { ::cuda_on_cpu::grid_barrier(); }
    arrival_token barrier_arrive() const { return {}; }
    __forceinline__ void barrier_wait(arrival_token&&) const { sync(); }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 group_dim() { return gridDim; }
    static dim3 dim_threads() { return {gridDim.x * blockDim.x, gridDim.y * blockDim.y, gridDim.z * blockDim.z}; }
    static dim3 block_index() { return dim3(blockIdx); }
    static dim3 thread_index() {
        return {blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
                blockIdx.z * blockDim.z + threadIdx.z};
    }
    static unsigned long long num_blocks() { return detail::volume(detail::grid_size()); }
    static unsigned long long block_rank() { return detail::rank(block_index(), detail::grid_size()); }
    static dim3 dim_clusters() { return ::cuda_on_cpu::place_in_cluster().grid; }
    static dim3 cluster_index() { return ::cuda_on_cpu::place_in_cluster().cluster; }
    static unsigned long long num_clusters() { return detail::volume(dim_clusters()); }
    static unsigned long long cluster_rank() { return detail::rank(cluster_index(), dim_clusters()); }

  private:
    grid_group() : thread_group(Kind::grid) {}
    friend grid_group this_grid();
};
inline grid_group this_grid() { return {}; }

class cluster_group : public thread_group {
  public:
    struct arrival_token {};
    __forceinline__ static void sync() {
        ::cuda_on_cpu::cluster_arrive("cluster.sync");
        ::cuda_on_cpu::cluster_wait("cluster.sync");
    }
    __forceinline__ static arrival_token barrier_arrive() {
        ::cuda_on_cpu::cluster_arrive("cluster.barrier_arrive");
        return {};
    }
    __forceinline__ static void barrier_wait() { ::cuda_on_cpu::cluster_wait("cluster.barrier_wait"); }
    __forceinline__ static void barrier_wait(arrival_token&&) { barrier_wait(); }
    __forceinline__ static unsigned int query_shared_rank(const void* address) {
        return ::cuda_on_cpu::query_shared_rank(address, "cluster.query_shared_rank");
    }
    template <class T>
    __forceinline__ static T* map_shared_rank(T* address, int rank) {
        return (T*)::cuda_on_cpu::map_shared_rank((const void*)address, rank, "cluster.map_shared_rank");
    }
    static dim3 block_index() { return ::cuda_on_cpu::place_in_cluster().block; }
    static unsigned int block_rank() { return ::cuda_on_cpu::place_in_cluster().rank; }
    static dim3 dim_blocks() { return ::cuda_on_cpu::place_in_cluster().dim; }
    static unsigned int num_blocks() { return ::cuda_on_cpu::place_in_cluster().size; }
    static dim3 thread_index() {
        const dim3 b = block_index();
        return {b.x * blockDim.x + threadIdx.x, b.y * blockDim.y + threadIdx.y, b.z * blockDim.z + threadIdx.z};
    }
    static dim3 dim_threads() {
        const dim3 d = dim_blocks();
        return {d.x * blockDim.x, d.y * blockDim.y, d.z * blockDim.z};
    }
    static unsigned int thread_rank() {
        return block_rank() * detail::volume(detail::block_size()) + detail::rank(dim3(threadIdx), detail::block_size());
    }
    static unsigned int num_threads() { return num_blocks() * detail::volume(detail::block_size()); }
    static unsigned int size() { return num_threads(); }

  private:
    cluster_group() : thread_group(Kind::cluster) {}
    friend cluster_group this_cluster();
};
inline cluster_group this_cluster() { return {}; }

class thread_block : public thread_group {
  public:
    struct arrival_token {};
    __forceinline__ static void sync() { ::cuda_on_cpu::barrier("sync of the block"); }
    arrival_token barrier_arrive() const { return {}; }
    __forceinline__ void barrier_wait(arrival_token&&) const { sync(); }
    static unsigned int size() { return detail::volume(detail::block_size()); }
    static unsigned int num_threads() { return size(); }
    static unsigned int thread_rank() { return detail::rank(dim3(threadIdx), detail::block_size()); }
    static dim3 group_index() { return dim3(blockIdx); }
    static dim3 thread_index() { return dim3(threadIdx); }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }

  private:
    thread_block() : thread_group(Kind::block) {}
    friend thread_block this_thread_block();
};
inline thread_block this_thread_block() { return {}; }
// What a GPU keeps for tiles of several warps in a block of at most so many threads.
template <unsigned int MaxBlockSize = 1024>
struct alignas(8) block_tile_memory {
    char scratch[CUDA_ON_CPU_ARCH < 800 ? 32 + MaxBlockSize / 4 : 1];
};
template <unsigned int MaxBlockSize>
thread_block this_thread_block(block_tile_memory<MaxBlockSize>&) { return this_thread_block(); }

// Some lanes of a warp. `at_rank(r)` is the lane of rank r, `from` the rank that a shuffle reads.
class lanes_group : public thread_group {
  public:
    unsigned int meta_group_rank() const { return meta_rank; }
    unsigned int meta_group_size() const { return meta_size; }
    __forceinline__ void sync() const { ::cuda_on_cpu::meet(mask, "group.sync"); }
    __forceinline__ int any(int vote) const { return ::cuda_on_cpu::ballot(mask, vote != 0, "group.any") != 0; }
    __forceinline__ int all(int vote) const { return ::cuda_on_cpu::ballot(mask, vote == 0, "group.all") == 0; }
    __forceinline__ unsigned int ballot(int vote) const {
        return by_rank(::cuda_on_cpu::ballot(mask, vote != 0, "group.ballot"));
    }
    template <class T>
    __forceinline__ unsigned int match_any(T value) const {
        return by_rank(::cuda_on_cpu::match(mask, ::cuda_on_cpu::bits_of(value), "group.match_any"));
    }
    template <class T>
    __forceinline__ unsigned int match_all(T value, int& all) const {
        unsigned int same = ::cuda_on_cpu::match(mask, ::cuda_on_cpu::bits_of(value), "group.match_all");
        all = same == ::cuda_on_cpu::ballot(mask, true, "group.match_all");
        return all ? by_rank(mask) : 0;
    }
    unsigned int lanes() const { return mask; }  // not CUDA's: for the functions in cooperative_groups/

  protected:
    lanes_group(unsigned int mask, unsigned int meta_rank, unsigned int meta_size)
        : thread_group(Kind::lanes, mask), meta_rank(meta_rank), meta_size(meta_size) {}
    // Of a mask of lanes the mask of their ranks.
    unsigned int by_rank(unsigned int some) const {
        unsigned int result = 0;
        for (unsigned int rest = some; rest; rest &= rest - 1)
            result |= 1u << detail::rank_of_lane(mask, __builtin_ctz(rest));
        return result;
    }
    unsigned int meta_rank, meta_size;  // this group among those that its parent was divided into
};

// `Size` consecutive lanes, a power of two up to 32.
template <unsigned int Size>
class lanes_tile : public lanes_group {
    static unsigned int first() { return detail::lane() & ~(Size - 1); }
    static unsigned int mask_of_mine() { return (Size == 32 ? ~0u : (1u << (Size & 31)) - 1) << first(); }

  protected:
    lanes_tile(unsigned int meta_rank, unsigned int meta_size) : lanes_group(mask_of_mine(), meta_rank, meta_size) {}

  public:
    static unsigned int thread_rank() { return detail::lane() & (Size - 1); }

    template <class T>
    __forceinline__ T shfl(T value, int rank) const {
        return detail::from_lane(mask, value, first() + (rank & (Size - 1)), "group.shfl");
    }
    template <class T>
    __forceinline__ T shfl_up(T value, unsigned int delta) const {
        return detail::from_lane(mask, value, ::cuda_on_cpu::lane_above(delta, Size), "group.shfl_up");
    }
    template <class T>
    __forceinline__ T shfl_down(T value, unsigned int delta) const {
        return detail::from_lane(mask, value, ::cuda_on_cpu::lane_below(delta, Size), "group.shfl_down");
    }
    template <class T>
    __forceinline__ T shfl_xor(T value, unsigned int bits, const char* function = "group.shfl_xor") const {
        return detail::from_lane(mask, value, ::cuda_on_cpu::lane_across(bits, Size), function);
    }
};

// `Size` consecutive threads of a block, a power of two from 64 to 1,024. They exchange values through memory. To CUDA,
// this is no thread_group.
template <unsigned int Size>
class warps_tile {
    unsigned int meta_rank, meta_size;

  protected:
    warps_tile(unsigned int meta_rank, unsigned int meta_size) : meta_rank(meta_rank), meta_size(meta_size) {}

  public:
    unsigned int meta_group_rank() const { return meta_rank; }
    unsigned int meta_group_size() const { return meta_size; }
    static unsigned int thread_rank() { return detail::rank_in_block() % Size; }
    __forceinline__ static void sync() { detail::tile_barrier(Size); }

    template <class T>
    __forceinline__ T shfl(const T& value, unsigned int rank, const char* function = "group.shfl") const {
        static_assert(sizeof(T) <= 32, "a tile of several warps exchanges values of at most 32 bytes");
        detail::put_in_slot(value);
        detail::tile_barrier(Size, function);
        T other = detail::of_slot<T>(detail::rank_in_block() / Size * Size + rank % Size);
        detail::tile_barrier(Size, function);
        return other;
    }
    __forceinline__ int any(int vote) const { return votes(vote != 0, "group.any") != 0; }
    __forceinline__ int all(int vote) const { return votes(vote != 0, "group.all") == Size; }
    // Not CUDA's: for the functions in cooperative_groups/.
    template <class T>
    __forceinline__ T shfl_up(T value, unsigned int delta) const {
        const unsigned int rank = thread_rank();
        return shfl(value, delta <= rank ? rank - delta : rank, "group.shfl_up");
    }
    template <class T>
    __forceinline__ T shfl_xor(T value, unsigned int bits, const char* function) const {
        return shfl(value, thread_rank() ^ bits, function);
    }

  private:
    __forceinline__ unsigned int votes(unsigned int sum, const char* function) const {
        for (unsigned int step = Size / 2; step > 0; step /= 2) sum += shfl_xor(sum, step, function);
        return sum;
    }
};

template <unsigned int Size, class Parent = void>
class thread_block_tile : public std::conditional_t<(Size > 32), warps_tile<Size>, lanes_tile<Size>> {
    static_assert(Size && (Size & (Size - 1)) == 0 && Size <= 1024, "a tile's size is a power of two, up to 1024");
    using Base = std::conditional_t<(Size > 32), warps_tile<Size>, lanes_tile<Size>>;

  public:
    thread_block_tile(unsigned int meta_rank, unsigned int meta_size) : Base(meta_rank, meta_size) {}
    template <class Other>
    thread_block_tile(const thread_block_tile<Size, Other>& same) : Base(same) {}

    static constexpr unsigned int size() { return Size; }
    static constexpr unsigned int num_threads() { return Size; }
};

// Any lanes of a warp.
class coalesced_group : public lanes_group {
  public:
    coalesced_group(unsigned int mask, unsigned int meta_rank, unsigned int meta_size)
        : lanes_group(mask, meta_rank, meta_size) {}
    unsigned int size() const { return __builtin_popcount(mask); }
    unsigned int num_threads() const { return size(); }
    unsigned int thread_rank() const { return detail::rank_of_lane(mask, detail::lane()); }

    template <class T>
    __forceinline__ T shfl(T value, unsigned int rank) const {
        if (rank < size()) return of_rank(value, rank, "group.shfl");
        // There is no such lane: of a whole warp, the number's last five bits count, otherwise it is lane 31.
        return detail::from_lane(mask, value, size() == 32 ? rank % 32 : 31, "group.shfl");
    }
    template <class T>
    __forceinline__ T shfl_up(T value, unsigned int delta) const {
        unsigned int me = thread_rank();
        return of_rank(value, delta <= me ? me - delta : me, "group.shfl_up");
    }
    template <class T>
    __forceinline__ T shfl_down(T value, unsigned int delta) const {
        unsigned int me = thread_rank();
        return of_rank(value, delta < size() - me ? me + delta : me, "group.shfl_down");
    }

  private:
    template <class T>
    __forceinline__ T of_rank(T value, unsigned int rank, const char* name) const {
        return detail::from_lane(mask, value, detail::lane_of_rank(mask, rank), name);
    }
};
__forceinline__ coalesced_group coalesced_threads() { return {::cuda_on_cpu::active_lanes(), 0, 1}; }

// ---- as functions ---------------------------------------------------------------------------------------------------

template <class Group> __forceinline__ void sync(const Group& group) { group.sync(); }
template <class Group> auto thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group> auto group_size(const Group& group) { return group.size(); }

// The function is called by one of the group; _broadcast gives all of them what it returned.
template <class Group, class Function, class... Args>
__forceinline__ void invoke_one(const Group& group, Function&& function, Args&&... args) {
    if (group.thread_rank() == 0) std::forward<Function>(function)(std::forward<Args>(args)...);
}
template <class Group, class Function, class... Args>
__forceinline__ auto invoke_one_broadcast(const Group& group, Function&& function, Args&&... args) {
    std::decay_t<decltype(std::forward<Function>(function)(std::forward<Args>(args)...))> result{};
    if (group.thread_rank() == 0) result = std::forward<Function>(function)(std::forward<Args>(args)...);
    return group.shfl(result, 0);
}

}  // namespace cooperative_groups

#include "cooperative_groups/partitions.h"
