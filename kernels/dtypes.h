// For wrappers whose kernels take float32, float16 and bfloat16; checks.h comes first.
struct __half;
struct __nv_bfloat16;

inline void check_floating(const at::Tensor& x, const char* name, int64_t dims = -1) {
    at::ScalarType dtype = x.scalar_type();
    if (dtype != at::kHalf && dtype != at::kBFloat16) dtype = at::kFloat;
    if (x.is_cuda() && x.scalar_type() != dtype)
        TORCH_CHECK_TYPE(false, name, " must be float32, float16 or bfloat16, but it is ",
                         c10::getDtypeNames(x.scalar_type()).first, ": convert it with .to(torch.float32)");
    check_input(x, name, dtype, dims);
}

// Calls `run` with a Type that says what the elements of x are in CUDA.
template <class T>
struct Type {
    using type = T;
};
template <class Run>
void for_dtype(const at::Tensor& x, Run run) {
    if (x.scalar_type() == at::kHalf)
        run(Type<__half>());
    else if (x.scalar_type() == at::kBFloat16)
        run(Type<__nv_bfloat16>());
    else
        run(Type<float>());
}
