// Functions of the C++ library, the C library and the CUDA runtime, called in device code.
// A snippet begins with `//// its name` and has a kernel k; what nvcc says of it is in bench/recorded/verdicts.json.

//// std_vector
#include <vector>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::vector<int> v(4);
    j[i] = v[0];
}

//// rand
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = rand() % n;
}

//// srand
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    srand(i);
    x[i] = 0;
}

//// drand48
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = drand48();
}

//// time
#include <ctime>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = time(nullptr);
}

//// cout
#include <iostream>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::cout << x[i] << std::endl;
}

//// puts
#include <cstdio>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    puts("here");
}

//// putchar
#include <cstdio>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    putchar('a');
}

//// sprintf
#include <cstdio>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    char text[16];
    sprintf(text, "%d", i);
    j[i] = text[0];
}

//// fflush
#include <cstdio>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    printf("%d", i);
    fflush(stdout);
}

//// std_printf
#include <cstdio>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::printf("%d\n", i);
}

//// abort
#include <cstdlib>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] < 0) abort();
}

//// assert
#include <cassert>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(x[i] > 0);
}

//// strcmp
#include <cstring>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = strcmp("abc", "abd");
}

//// strcpy
#include <cstring>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    char text[8];
    strcpy(text, "abc");
    j[i] = text[1];
}

//// memcpy
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v;
    memcpy(&v, x + i, 4);
    x[i] = v + 1;
}

//// std_memcpy
#include <cstring>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v;
    std::memcpy(&v, x + i, 4);
    x[i] = v + 1;
}

//// memmove
#include <cstring>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    memmove(x, x + 1, 4);
}

//// malloc_free
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int* p = (int*)malloc(4);
    p[0] = i;
    j[i] = p[0];
    free(p);
}

//// realloc
#include <cstdlib>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int* p = (int*)realloc(nullptr, 4);
    p[0] = 1;
}

//// std_max_without_header
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = std::max(x[i], 0.0f);
}

//// std_clamp
#include <algorithm>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = std::clamp(x[i], 0.0f, 1.0f);
}

//// std_accumulate
#include <numeric>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = std::accumulate(x, x + 4, 0.0f);
}

//// std_fill
#include <algorithm>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::fill(x, x + 4, 0.0f);
}

//// std_move
#include <utility>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = std::move(x[i + 1]);
}

//// std_forward
#include <utility>
template <class T> __device__ T same(T&& v) { return std::forward<T>(v); }
__global__ void k(float* x) { x[0] = same(1.0f); }

//// std_array_index
#include <array>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::array<int, 4> a{1, 2, 3, 4};
    j[i] = a[i % 4];
}

//// std_make_pair
#include <utility>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto p = std::make_pair(i, n);
    j[i] = p.first;
}

//// std_numeric_limits_value
#include <limits>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = std::numeric_limits<float>::max();
}

//// std_sqrt_without_header
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = std::sqrt(x[i]) + std::exp(x[i]);
}

//// std_isnan
#include <cmath>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = std::isnan(x[i]) || std::isinf(x[i]) || isfinite(x[i]);
}

//// std_floor_round
#include <cmath>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = std::floor(x[i]) + std::round(x[i]) + std::fmod(x[i], 2.0f);
}

//// std_hypot
#include <cmath>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = std::hypot(x[i], 1.0f);
}

//// std_hypot_of_three
#include <cmath>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = std::hypot(x[i], 1.0f, 2.0f);
}

//// std_riemann_zeta
#include <cmath>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = std::riemann_zeta(2.0f);
}

//// std_atomic
#include <atomic>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::atomic<int> a(0);
    a.fetch_add(1);
    j[i] = a.load();
}

//// std_mutex
#include <mutex>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::mutex m;
    m.lock();
    x[i] = 1;
    m.unlock();
}

//// std_bitset
#include <bitset>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::bitset<8> b(i);
    j[i] = b.count();
}

//// std_random
#include <random>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::mt19937 generator(i);
    j[i] = generator();
}

//// std_initializer_list
#include <initializer_list>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0;
    for (int v : {1, 2, 3}) sum += v;
    j[i] = sum;
}

//// std_size_t
#include <cstddef>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::size_t at = i;
    x[at] = 1;
}

//// fixed_width_without_header
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint8_t b = i;
    int64_t l = b;
    j[i] = l;
}

//// getenv
#include <cstdlib>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = getenv("HOME") != nullptr;
}

//// usleep
#include <unistd.h>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    usleep(10);
}

//// clock
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = clock() != 0;
}

//// clock64
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = clock64() > 0;
}

//// cuda_malloc
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float* p;
    cudaMalloc(&p, 4);
    x[i] = p[0];
}

//// cuda_memset
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    cudaMemset(x, 0, 4);
}

//// cuda_get_device
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int d;
    cudaGetDevice(&d);
    j[i] = d;
}

//// cuda_stream_create
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    cudaStream_t s;
    cudaStreamCreate(&s);
}

//// cuda_error_value
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = cudaErrorInvalidValue;
}

//// isalpha
#include <cctype>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = isalpha('a');
}

//// alloca
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int* p = (int*)alloca(16);
    p[0] = i;
    j[i] = p[0];
}

//// std_for_each
#include <algorithm>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::for_each(x, x + 4, [](float& v) { v = 0; });
}

//// std_optional
#include <optional>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::optional<int> o = i;
    j[i] = *o;
}

//// memchr
#include <cstring>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = memchr("abc", 'b', 3) != nullptr;
}
