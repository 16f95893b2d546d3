"""What the tests' kernels call instead of writing PTX: mbarriers and the bulk copy engine as functions."""

import contextlib

import pytest

from utils.cuda.cpu import module as engine
from utils.cuda.cpu.trace import run as trace_run

HELPERS = r"""
typedef unsigned long long mbarrier;
__device__ unsigned int at(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }
__device__ void init(mbarrier* b, int n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(b)), "r"(n));
}
__device__ void arrive(mbarrier* b) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.release.cta.shared::cta.b64 state, [%0]; }"
                 :: "r"(at(b)) : "memory");
}
__device__ void expect(mbarrier* b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(b)), "r"(bytes) : "memory");
}
__device__ void wait(mbarrier* b, int parity) {
    asm volatile("{ .reg .pred p;\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again; }"
                 :: "r"(at(b)), "r"(parity) : "memory");
}
__device__ void load(void* to, const void* from, int bytes, mbarrier* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(at(to)), "l"(from), "r"(bytes), "r"(at(b)) : "memory");
}
__device__ void store(void* to, const void* from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(to), "r"(at(from)), "r"(bytes) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int left>
__device__ void wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(left) : "memory"); }
template <int left>
__device__ void wait_done() { asm volatile("cp.async.bulk.wait_group %0;" :: "n"(left) : "memory"); }
"""


@contextlib.contextmanager
def built_together(*sources):
    """Meanwhile, whoever traces one of a source's kernels builds all of them. The kernels' names, by source."""

    def module(source, name, *args, **options):
        names = next(names for names in sources if name in names)
        return engine.modules(source, names, *args, **options)[names.index(name)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_run, "module", module, raising=False)
        yield
