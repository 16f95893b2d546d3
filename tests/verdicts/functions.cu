// Functions, methods, operators and kernels that device code calls, marked or not.
// A snippet begins with `//// its name` and has a kernel k; what nvcc says of it is in bench/recorded/verdicts.json.

//// unmarked_function

float twice(float v) { return 2 * v; }
__global__ void k(float* x) { x[0] = twice(x[0]); }

//// unmarked_inline_function

inline float twice(float v) { return 2 * v; }
__global__ void k(float* x) { x[0] = twice(x[0]); }

//// unmarked_template_function

template <class T> T twice(T v) { return 2 * v; }
__global__ void k(float* x) { x[0] = twice(x[0]); }

//// unmarked_constexpr_function

constexpr int twice(int v) { return 2 * v; }
__global__ void k(int* j) { j[0] = twice(j[1]); }

//// constexpr_function_as_a_constant

constexpr int twice(int v) { return 2 * v; }
__global__ void k(int* j) { constexpr int four = twice(2); j[0] = four; }

//// constexpr_function_as_a_size

constexpr int twice(int v) { return 2 * v; }
__global__ void k(int* j) { int a[twice(2)]; a[0] = 1; j[0] = a[0]; }

//// unmarked_function_called_by_a_device_function

float twice(float v) { return 2 * v; }
__device__ float four_times(float v) { return twice(twice(v)); }
__global__ void k(float* x) { x[0] = four_times(x[0]); }

//// host_device_function

__host__ __device__ float twice(float v) { return 2 * v; }
__global__ void k(float* x) { x[0] = twice(x[0]); }

//// host_device_function_calls_a_host_function

float once(float v) { return v; }
__host__ __device__ float twice(float v) { return 2 * once(v); }
__global__ void k(float* x) { x[0] = twice(x[0]); }

//// host_function

__host__ float twice(float v) { return 2 * v; }
__global__ void k(float* x) { x[0] = twice(x[0]); }

//// unmarked_function_that_no_kernel_calls

#include <vector>
float sum(const std::vector<float>& v) { float s = 0; for (float e : v) s += e; return s; }
__global__ void k(float* x) { x[0] = 1; }

//// unmarked_method

struct Box { float v; float twice() const { return 2 * v; } };
__global__ void k(float* x) { Box b{x[0]}; x[0] = b.twice(); }

//// device_method

struct Box { float v; __device__ float twice() const { return 2 * v; } };
__global__ void k(float* x) { Box b{x[0]}; x[0] = b.twice(); }

//// unmarked_constructor

struct Box { float v; Box(float w) : v(w) {} };
__global__ void k(float* x) { Box b(x[0]); x[0] = b.v; }

//// defaulted_constructor

struct Box { float v; Box() = default; };
__global__ void k(float* x) { Box b; b.v = 1; x[0] = b.v; }

//// unmarked_destructor

struct Box { float v; ~Box() {} };
__global__ void k(float* x) { Box b{1.0f}; x[0] = b.v; }

//// implicit_constructor_with_initial_values

struct Box { float v = 1; int n = 2; };
__global__ void k(float* x) { Box b; x[0] = b.v + b.n; }

//// unmarked_operator

struct Vec { float a, b; };
Vec operator+(Vec l, Vec r) { return {l.a + r.a, l.b + r.b}; }
__global__ void k(float* x) { Vec v{1, 2}; x[0] = (v + v).a; }

//// device_operator

struct Vec { float a, b; };
__device__ Vec operator+(Vec l, Vec r) { return {l.a + r.a, l.b + r.b}; }
__global__ void k(float* x) { Vec v{1, 2}; x[0] = (v + v).a; }

//// unmarked_operator_of_float4

float4 operator+(float4 l, float4 r) { return make_float4(l.x + r.x, l.y + r.y, l.z + r.z, l.w + r.w); }
__global__ void k(float4* x) { x[0] = x[0] + x[1]; }

//// unmarked_conversion

struct Box { float v; operator float() const { return v; } };
__global__ void k(float* x) { Box b{x[0]}; x[0] = b + 1; }

//// unmarked_lambda_at_file_scope

auto twice = [](float v) { return 2 * v; };
__global__ void k(float* x) { x[0] = twice(x[0]); }

//// lambda_in_a_kernel
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto twice = [](float v) { return 2 * v; };
    x[i] = twice(x[i]);
}

//// generic_lambda_in_a_kernel
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto twice = [=](auto v) { return n * v; };
    x[i] = twice(x[i]) + twice(2);
}

//// kernel_calls_itself

__global__ void k(float* x, int n) { if (n) k(x, n - 1); }

//// host_function_launched

void other(float* x) { x[0] = 1; }
__global__ void k(float* x) { x[0] = 1; }
void run(float* x) { other<<<1, 1>>>(x); }

//// launch_in_a_kernel

__global__ void other(float* x) { x[0] = 1; }
__global__ void k(float* x) { other<<<1, 1>>>(x); }

//// launch_with_too_few_arguments

__global__ void k(float* x, int n) { x[0] = n; }
void run(float* x) { k<<<1, 32>>>(x); }

//// launch_with_a_tuple

__global__ void k(float* x) { x[0] = 1; }
void run(float* x) { k<<<(1, 1), (16, 16)>>>(x); }

//// launch_with_null

__global__ void k(float* x, const int* j) { x[0] = j ? 1 : 0; }
void run(float* x) { k<<<1, 32>>>(x, NULL); k<<<1, 32>>>(x, 0); k<<<1, 32>>>(x, nullptr); }

//// recursion

__device__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
__global__ void k(int* j) { j[0] = factorial(j[1]); }

//// function_pointer

__device__ float twice(float v) { return 2 * v; }
__global__ void k(float* x) { float (*f)(float) = twice; x[0] = f(x[0]); }

//// pointer_to_a_host_function

float twice(float v) { return 2 * v; }
__global__ void k(float* x) { float (*f)(float) = twice; x[0] = f(x[0]); }

//// device_function_defined_later

__device__ float twice(float v);
__global__ void k(float* x) { x[0] = twice(x[0]); }
__device__ float twice(float v) { return 2 * v; }

//// overloaded_on_host_and_device

__host__ float where(float v) { return 1; }
__device__ float where(float v) { return 2; }
__global__ void k(float* x) { x[0] = where(x[0]); }

//// user_function_named_clamp

__device__ float clamp(float v, float low, float high) { return fminf(fmaxf(v, low), high); }
__global__ void k(float* x) { x[0] = clamp(x[0], 0, 1); }

//// user_function_named_max

__device__ float max(float a, float b) { return a > b ? a : b; }
__global__ void k(float* x) { x[0] = max(x[0], 1.0f); }

//// user_function_named_square

__device__ float square(float v) { return v * v; }
__device__ int midpoint(int a, int b) { return (a + b) / 2; }
__global__ void k(float* x) { x[0] = square(x[0]) + midpoint(1, 3); }

//// user_macro_named_min

#define MIN(a, b) ((a) < (b) ? (a) : (b))
__global__ void k(float* x, int n) { x[0] = MIN(x[0], n); }

//// user_function_named_atomic_max

__device__ float atomicMax(float* address, float v) {
    int* bits = (int*)address;
    int old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(fmaxf(v, __int_as_float(assumed))));
    } while (assumed != old);
    return __int_as_float(old);
}
__global__ void k(float* x) { atomicMax(x, 2.0f); }

//// missing_return

__device__ float twice(float v) { v *= 2; }
__global__ void k(float* x) { x[0] = twice(x[0]); }

//// return_of_a_value_from_a_void_function

__device__ void twice(float v) { return 2 * v; }
__global__ void k(float* x) { twice(x[0]); }

//// default_argument

__device__ float scaled(float v, float by = 2.0f) { return by * v; }
__global__ void k(float* x) { x[0] = scaled(x[0]); }

//// pointer_for_a_value

__device__ float twice(float v) { return 2 * v; }
__global__ void k(float* x) { x[0] = twice(x); }

//// functor_template

struct Add { template <class T> __device__ T operator()(T a, T b) const { return a + b; } };
template <class F> __device__ float apply(F f, float a, float b) { return f(a, b); }
__global__ void k(float* x) { x[0] = apply(Add{}, x[0], x[1]); }

//// forceinline_noinline

__device__ __forceinline__ float once(float v) { return v; }
__device__ __noinline__ float twice(float v) { return 2 * v; }
static __inline__ __device__ float thrice(float v) { return 3 * v; }
__global__ void k(float* x) { x[0] = once(x[0]) + twice(x[0]) + thrice(x[0]); }

//// device_function_in_a_namespace

namespace ops { namespace { __device__ float twice(float v) { return 2 * v; } } }
__global__ void k(float* x) { x[0] = ops::twice(x[0]); }

//// variadic_template

template <class... Ts> __device__ float sum(Ts... v) { return (v + ...); }
__global__ void k(float* x) { x[0] = sum(x[0], 1, 2.0); }

//// host_function_calls_a_device_function
__device__ float twice(float v) { return 2 * v; }
__global__ void k(float* x) { x[0] = twice(x[0]); }
float host(float v) { return twice(v); }

//// host_function_with_a_barrier
__global__ void k(float* x) { x[0] = 1; }
void host() { __syncthreads(); }

//// host_function_with_shared_memory
__global__ void k(float* x) { x[0] = 1; }
void host() { __shared__ float s[3]; s[0] = 1; }

//// host_function_prints_without_a_header
__global__ void k(float* x) { x[0] = 1; }
void host() { printf("host"); }

//// launch_without_threads
__global__ void k(float* x) { x[0] = 1; }
void host(float* x) { k<<<1>>>(x); }

//// launch_with_braces
__global__ void k(float* x) { x[0] = 1; }
void host(float* x) { k<<<{1, 2}, {3}>>>(x); }
