// What reductions of the bulk copy engine make of each element: as the atomics of inline PTX do.
#include "bulk.h"
#include "cuda_on_cpu/ptx/memory.h"

namespace cuda_on_cpu {

using namespace ptx;

// Of each element of type T, which changes to f(old, given).
template <class T, Bits<T> (*f)(Bits<T>, Bits<T>)>
static void each(void* to, const void* from, size_t bytes) {
    const auto* given = static_cast<const Bits<T>*>(from);
    char* at = static_cast<char*>(to);
    for (size_t k = 0; k < bytes / sizeof(Bits<T>); k++)
        changed_at<Bits<T>>(at + k * sizeof(Bits<T>), [=](Bits<T> old) { return f(old, given ? given[k] : Bits<T>(0)); });
}

template <class B>
static B both(B a, B b) { return a & b; }
template <class B>
static B either(B a, B b) { return a | b; }
template <class B>
static B differ(B a, B b) { return a ^ b; }
static uint32_t increment(uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; }
static uint32_t decrement(uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; }

template <class T>
static BulkCombine ordered(BulkOp op) {
    if (op == BulkOp::min) return each<T, smaller<T>>;
    if (op == BulkOp::max) return each<T, larger<T>>;
    return nullptr;
}

template <class T>
static BulkCombine numbers(BulkOp op) {
    return op == BulkOp::add ? each<T, sum<T>> : ordered<T>(op);
}

template <class B>
static BulkCombine bits(BulkOp op) {
    if (op == BulkOp::bit_and) return each<B, both<B>>;
    if (op == BulkOp::bit_or) return each<B, either<B>>;
    if (op == BulkOp::bit_xor) return each<B, differ<B>>;
    return nullptr;
}

BulkCombine bulk_combine(BulkOp op, BulkType type) {
    switch (type) {
        case BulkType::u32:
            if (op == BulkOp::inc) return each<uint32_t, increment>;
            if (op == BulkOp::dec) return each<uint32_t, decrement>;
            return numbers<uint32_t>(op);
        case BulkType::s32: return numbers<int32_t>(op);
        case BulkType::u64: return numbers<uint64_t>(op);
        case BulkType::s64: return ordered<int64_t>(op);
        case BulkType::f16: return numbers<Half>(op);
        case BulkType::bf16: return numbers<Bfloat>(op);
        case BulkType::f32: return op == BulkOp::add ? each<float, sum<float>> : nullptr;
        case BulkType::f64: return op == BulkOp::add ? each<double, sum<double>> : nullptr;
        case BulkType::b32: return bits<uint32_t>(op);
        case BulkType::b64: return bits<uint64_t>(op);
    }
    return nullptr;
}

}  // namespace cuda_on_cpu
