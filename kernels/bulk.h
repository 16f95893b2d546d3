// Copies and stores into shared memory that go on by themselves, and the barriers that count their bytes. Where GPUs lack
// them, before sm_90, these functions do nothing: launchers must not get there.
using Barrier = unsigned long long;

__device__ inline unsigned int shared_address(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }

// Barriers that are complete after one arrival and all bytes that it has announced. One thread makes them; before others
// use them comes __syncthreads.
__device__ inline void init(Barrier* barriers, int count) {
#if __CUDA_ARCH__ >= 900
    for (int k = 0; k < count; ++k)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barriers + k)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// The one arrival: so many bytes will come.
__device__ inline void expect(Barrier* barrier, int bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
#endif
}

// One thread begins a copy of `bytes` bytes, a multiple of 16, as both addresses are. `barrier` expects nothing else.
__device__ inline void copy_bulk(void* to, const void* from, int bytes, Barrier* barrier) {
    expect(barrier, bytes);
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
#endif
}

// Stores v in block number `block` of the cluster, where this block has `place` and `barrier`.
__device__ inline void send(float2 v, float2* place, Barrier* barrier, int block) {
#if __CUDA_ARCH__ >= 900
    unsigned int there, counted;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(place)), "r"(block));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counted) : "r"(shared_address(barrier)), "r"(block));
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(there),
                 "f"(v.x), "f"(v.y), "r"(counted)
                 : "memory");
#endif
}

// Waits until all that a phase expects has arrived. `parity` is 0 in a barrier's first phase, 1 in the next, and so on.
__device__ inline void wait(Barrier* barrier, int parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n.reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
#endif
}
