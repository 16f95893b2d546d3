// Variables: of the host, built in, shared, constant, local, and how they are initialised.
// A snippet begins with `//// its name` and has a kernel k; what nvcc says of it is in bench/recorded/verdicts.json.

//// host_variable

int factor = 3;
__global__ void k(int* j) { j[0] = factor; }

//// host_array

float weights[3] = {0.1f, 0.2f, 0.7f};
__global__ void k(float* x) { x[0] = weights[1]; }

//// static_host_array

static int table[4] = {1, 2, 3, 4};
__global__ void k(int* j) { j[0] = table[j[1]]; }

//// const_float

const float factor = 3.0f;
__global__ void k(float* x) { x[0] = factor * x[1]; }

//// const_double

const double factor = 3.0;
__global__ void k(double* x) { x[0] = factor * x[1]; }

//// const_array

const float weights[3] = {0.1f, 0.2f, 0.7f};
__global__ void k(float* x) { x[0] = weights[0] + x[1]; }

//// static_constexpr_member

struct Config { static constexpr int tile = 16; static constexpr float scale = 2.0f; };
__global__ void k(float* x) { __shared__ float s[Config::tile]; s[0] = Config::scale; x[0] = s[0]; }

//// const_int_by_address

const int factor = 3;
__global__ void k(int* j) { const int* p = &factor; j[0] = *p; }

//// const_int_not_constant

#include <cstdlib>
const int factor = rand();
__global__ void k(int* j) { j[0] = factor; }

//// extern_host_variable

extern int count;
__global__ void k(int* j) { j[0] = count; }

//// host_string

const char* text = "abc";
__global__ void k(int* j) { j[0] = text[0]; }

//// host_static_member

struct Config { static int tile; };
int Config::tile = 4;
__global__ void k(int* j) { j[0] = Config::tile; }

//// device_variable

__device__ int count = 3;
__global__ void k(int* j) { j[0] = count; }

//// constant_array

__constant__ float weights[3] = {0.1f, 0.2f, 0.7f};
__global__ void k(float* x) { x[0] = weights[1]; }

//// constant_is_assigned

__constant__ float weight = 1;
__global__ void k(float* x) { weight = x[0]; }

//// managed_variable

__managed__ int count;
__global__ void k() { atomicAdd(&count, 1); }

//// device_variable_address_for_the_host

__device__ int count;
__global__ void k() { count = 1; }
int host() { int v = 0; cudaMemcpyFromSymbol(&v, count, 4); return v; }

//// device_variable_dynamic_initialiser

__device__ float root = sqrtf(2.0f);
__global__ void k(float* x) { x[0] = root; }

//// device_variable_initialised_by_another

int three() { return 3; }
__device__ int count = three();
__global__ void k(int* j) { j[0] = count; }

//// constant_dynamic_initialiser

#include <cmath>
__constant__ double root = std::sqrt(2.0);
__global__ void k(double* x) { x[0] = root; }

//// local_constant
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __constant__ int three = 3;
    j[i] = three;
}

//// local_static_dynamic
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    static int count = i;
    j[i] = count;
}

//// write_to_thread_idx
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    threadIdx.x = 0;
    j[i] = threadIdx.x;
}

//// write_to_block_idx
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    blockIdx.x += 1;
    j[i] = blockIdx.x;
}

//// write_to_grid_dim
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    gridDim = dim3(1);
}

//// increment_thread_idx
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = threadIdx.x++;
}

//// address_of_thread_idx
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const uint3* p = &threadIdx;
    j[i] = p->x;
}

//// mutable_reference_to_thread_idx
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint3& t = threadIdx;
    j[i] = t.x;
}

//// thread_idx_w
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = threadIdx.w;
}

//// shared_initialised
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ int count = 0;
    j[i] = count;
}

//// shared_array_initialised
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ float s[2] = {1, 2};
    x[i] = s[0];
}

//// shared_of_a_runtime_size
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ float s[n];
    s[0] = 1;
    x[i] = s[0];
}

//// extern_shared_of_two_types

__global__ void k(float* x) { extern __shared__ float s[]; x[0] = s[0]; }
__global__ void other(int* j) { extern __shared__ int s[]; j[0] = s[0]; }

//// extern_shared_of_two_types_in_a_template

template <class T> __global__ void t(T* x) { extern __shared__ T s[]; x[0] = s[0]; }
template __global__ void t<float>(float*);
template __global__ void t<int>(int*);
__global__ void k(float* x) { x[0] = 1; }

//// vla_of_const_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int size = n;
    float a[size];
    a[0] = 1;
    x[i] = a[0];
}

//// int_from_a_pointer
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = x;
    j[i] = v;
}

//// pointer_from_an_int
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float* p = 3;
    x[i] = p[0];
}

//// float_pointer_from_int_pointer
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float* p = j;
    x[i] = p[0];
}

//// pointer_from_void
__global__ void k(void* v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float* p = v;
    p[i] = 1;
}

//// assign_to_const
__global__ void k(const float* c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = 1;
}

//// discard_const
__global__ void k(const float* c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float* p = c;
    p[i] = 1;
}

//// uint_max_size_max
__global__ void k(int* j, size_t n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = n > SIZE_MAX ? UINT_MAX : 0;
}

//// undeclared_variable
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = y;
}

//// auto_not_initialised
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto v;
    j[i] = v;
}

//// built_in_name_hidden_later
__global__ void k(int* j) { j[1] = threadIdx.x; int threadIdx = 3; j[0] = threadIdx; }

//// extern_shared_at_file_scope_is_cast
extern __shared__ __align__(16) unsigned char raw[];
__global__ void k(float* x) { float* p = (float*)raw; p[0] = 1; reinterpret_cast<float4*>(raw)[1].x = 2; x[0] = p[0]; }

//// extern_shared_of_one_value
__global__ void k(float* x) { extern __shared__ float value; value = 1; x[0] = value; }

//// shared_parameter
__device__ void put(__shared__ float* p) { p[0] = 1; }
__global__ void k(float* x) { put(x); }
