// Overloads of CUDA's functions with mixed or integer arguments.
// A snippet begins with `//// its name` and has a kernel k; what nvcc says of it is in bench/recorded/verdicts.json.

//// max_int_float
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = max(0, x[i]);
}

//// min_float_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = min(x[i], 1);
}

//// max_double_int
__global__ void k(double* d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    d[i] = max(d[i], 0);
}

//// min_int_unsigned
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = min(i, threadIdx.x);
}

//// min_int_size_t
__global__ void k(int* j, size_t n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = min(2, n);
}

//// min_long_int
__global__ void k(int* j, long n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = min(n, 2);
}

//// min_long_long_long
__global__ void k(int* j, long long n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = min(n, 2L);
}

//// min_short_short
__global__ void k(short* s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[i] = min(s[i], s[i + 1]);
}

//// min_char_char
__global__ void k(unsigned char* c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = min(c[i], c[i + 1]);
}

//// max_of_three
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = max(i, n, 3);
}

//// fmax_float_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = fmax(x[i], 0);
}

//// fmin_float_double
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = fmin(x[i], 1.0);
}

//// abs_float
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = abs(x[i]);
}

//// abs_unsigned
__global__ void k(int* j, unsigned n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = abs(n);
}

//// abs_unsigned_difference
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = abs(threadIdx.x - 3);
}

//// sqrt_size_t
__global__ void k(float* x, size_t n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = sqrt(n);
}

//// pow_int_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = pow(j[i], 2);
}

//// powf_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = powf(j[i], 2);
}

//// exp_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = exp(j[i]);
}

//// log_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = log(n);
}

//// floor_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = floor(j[i]);
}

//// ceil_of_a_division
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = ceil(n / 2);
}

//// atan2_mixed
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = atan2(x[i], 1.0);
}

//// fmod_float_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = fmod(x[i], 2);
}

//// fmodf_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = fmodf(x[i], 2);
}

//// isnan_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = isnan(j[i]);
}

//// fma_mixed
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = fma(x[i], 2, 1.0);
}

//// fmaf_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = fmaf(x[i], 2, 1);
}

//// modf_mixed
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double whole;
    x[i] = modf(x[i], &whole);
}

//// sincosf
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s, c;
    sincosf(x[i], &s, &c);
    x[i] = s + c;
}

//// sincos_mixed
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double s, c;
    sincos(x[i], &s, &c);
    x[i] = s + c;
}

//// rsqrt_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = rsqrt(j[i]);
}

//// cbrt_rcbrt
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = cbrtf(x[i]) + rcbrtf(x[i]);
}

//// sinpi_cospi
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = sinpif(x[i]) + cospif(x[i]) + sinpi(x[i]);
}

//// popc_clz
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = __popc(i) + __clz(i) + __ffs(i) + __brev(i);
}

//// umin_ullmin
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = umin(i, n) + ullmin(2, 3);
}

//// signbit_copysign
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = copysignf(x[i], -1.0f) + signbit(x[i]);
}

//// atomic_add_float_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(x, 1);
}

//// atomic_add_long_long
__global__ void k(long long* l) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(l, 1);
}

//// atomic_add_size_t
__global__ void k(size_t* l) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(l, 1);
}

//// atomic_add_char
__global__ void k(unsigned char* c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(c, 1);
}

//// atomic_add_short
__global__ void k(short* s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(s, 1);
}

//// atomic_max_float
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicMax(x, 1.0f);
}

//// atomic_max_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicMax(j, i);
}

//// atomic_sub_float
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicSub(x, 1.0f);
}

//// atomic_cas_float
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicCAS(x, 0.0f, 1.0f);
}

//// atomic_exch_float
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicExch(x, 1.0f);
}

//// atomic_exch_double
__global__ void k(double* d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicExch(d, 1.0);
}

//// atomic_and_float
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAnd(x, 1);
}

//// atomic_add_const
__global__ void k(const int* c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(c, 1);
}

//// atomic_add_volatile
__global__ void k(volatile int* v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(v, 1);
}

//// shfl_char
__global__ void k(signed char* c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = __shfl_sync(~0u, c[i], 0);
}

//// shfl_bool
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = __shfl_sync(~0u, i > 3, 0);
}

//// shfl_float2
__global__ void k(float2* f) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    f[i] = __shfl_sync(~0u, f[i], 0);
}

//// shfl_without_sync
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = __shfl_down(x[i], 1);
}

//// shfl_without_mask
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = __shfl_down_sync(x[i], 1);
}

//// reduce_add_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = __reduce_add_sync(~0u, j[i]);
}

//// reduce_add_float
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = __reduce_add_sync(~0u, x[i]);
}

//// reduce_max_unsigned
__global__ void k(unsigned* u) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    u[i] = __reduce_max_sync(~0u, u[i]);
}

//// syncthreads_count
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = __syncthreads_count(i > 3) + __syncthreads_or(i) + __syncthreads_and(i);
}

//// float4_plus_float4
__global__ void k(float4* f) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    f[i] = f[i] + f[i];
}

//// float2_from_one
__global__ void k(float2* f) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    f[i] = make_float2(1);
}

//// min_enum_int
enum E { A, B };
__global__ void k(int* j) { j[0] = min(A, 3) + max(B, j[0]); }

//// min_of_two_enums
enum E { A, B };
enum F { C, D };
__global__ void k(int* j) { j[0] = min(A, B) + max(B, D); }

//// max_enum_float
enum E { A, B };
__global__ void k(float* x) { x[0] = max(A, x[0]); }

//// max_half_float
#include <cuda_fp16.h>
__global__ void k(half* h, float* x) { x[0] = max(h[0], 0.0f); }

//// atomic_xor_long_long
__global__ void k(long long* w) { atomicXor(w, 3); }

//// atomic_add_float2
__global__ void k(float2* v) { atomicAdd(v, make_float2(1, 2)); }

//// atomic_cas_long_long
__global__ void k(long long* w) { atomicCAS(w, 1ll, 2ll); }
