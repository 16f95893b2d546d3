// What the torch wrappers of the norms check: x has rows, its last dimension, and weight and bias are as long as a row.
#include "../checks.h"
#include "../dtypes.h"

struct Rows {
    int64_t h;
    int w;
};

inline Rows rows_of(const at::Tensor& x, const char* name) {
    check_floating(x, name);
    TORCH_CHECK_VALUE(x.dim() > 0, name, " must have 1 dimension or more, but it has 0");
    int64_t w = x.size(-1), h = 1;
    for (int64_t size : x.sizes().slice(0, x.dim() - 1)) h *= size;
    TORCH_CHECK_VALUE(w <= (1 << 29), name, " has rows of ", w, " elements, but at most ", 1 << 29, " fit");
    return {h, int(w)};
}

inline void check_for_rows(const std::optional<at::Tensor>& weight, const char* name, const at::Tensor& x, int w) {
    if (!weight) return;
    check_input(*weight, name, x.scalar_type(), 1);
    TORCH_CHECK_VALUE(weight->size(0) == w, name, " has ", weight->size(0), " elements, but x has rows of ", w);
    check_same_device(*weight, name, x, "x");
}

template <class T>
const T* data(const std::optional<at::Tensor>& weight) {
    return weight ? (const T*)weight->const_data_ptr() : nullptr;
}
