// Small texts that plain nvcc accepts (-ptx, CUDA 13.0, C++17), near the border of what C++ compilers do.
#include <cmath>
#include <cfloat>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_pipeline.h>
#include <limits>
#include <vector>
#include <string>

// enum arithmetic
namespace n0 {
enum Op { ADD, MUL }; __device__ float ap(Op o, float a, float b) { switch (o) { case ADD: return a + b; case MUL: return a * b; } return 0; }
template <Op o> __global__ void k(float* x) { x[0] = ap(o, x[0], x[1]); }
void run(float* x) { k<ADD><<<1, 1>>>(x); }
}

// struct methods
namespace n1 {
struct Mat { int w, h; float* e; __host__ __device__ float& at(int r, int c) { return e[r * w + c]; } __host__ __device__ const float& at(int r, int c) const { return e[r * w + c]; } };
__global__ void k(Mat a, const Mat b) { a.at(0, 0) = b.at(1, 1); }
void run(Mat m) { k<<<dim3(1), dim3(2)>>>(m, m); k<<<{1, 2}, {3}>>>(m, m); }
}

// const pointer void
namespace n2 {
__global__ void k(void* p, const void* q) { *(float*)p = *(const float*)q; }
}

// char arith and unsigned
namespace n3 {
__global__ void k(unsigned char* p, int n) { unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = ~p[i] + 'a' - 'A'; }
}

// implicit void* conversions
namespace n4 {
__global__ void k(char* buf) { float* f = reinterpret_cast<float*>(buf); int4* v = (int4*)buf; f[0] = v->x; }
}

// min max mixes
namespace n5 {
__global__ void k(int* x, unsigned* u, long long* l, float* f, double* d) { x[0] = min(x[1], 3); u[0] = max(u[1], 3u); l[0] = min(l[0], 3ll); f[0] = fminf(f[1], 3); f[1] = min(f[0], 1.0f); d[0] = max(d[0], 1.0); d[1] = max(f[0], d[0]); u[1] = min(x[0], u[0]); f[2] = fmaxf(x[0], 2.0); }
}

// math overloads
namespace n6 {
__global__ void k(float* f, double* d, int* i) { f[0] = sqrt(f[0]) + pow(f[0], 2) + pow(f[0], 2.0f) + exp(f[1]) + abs(f[2]) + fabs(f[3]) + floor(f[0]) + sin(f[0]); d[0] = sqrt(d[0]) + pow(d[0], 2) + fabs(d[1]) + sqrt((double)i[0]); i[0] = abs(i[0]) + pow(2.0, 3.0); f[4] = fmod(f[0], f[1]) + atan2(f[0], f[1]) + hypot(f[0], f[1]) + log2(f[0]) + round(f[0]) + isnan(f[0]) + isinf(f[0]) + signbit(f[0]) + isfinite(f[0]); }
}

// std math
namespace n7 {
__global__ void k(float* f) { f[0] = std::sqrt(f[0]) + std::exp(f[1]) + std::abs(f[2]) + std::pow(f[0], 2.f) + std::floor(f[1]) + std::fma(f[0], f[1], f[2]) + std::isnan(f[3]); }
}

// constants
namespace n8 {
__global__ void k(float* f) { f[0] = FLT_MAX; f[1] = -INFINITY; f[2] = NAN; f[3] = M_PI; f[4] = HUGE_VALF; f[5] = 1e-7f; f[6] = 0x1p-3f; f[7] = 1'000.0f; f[8] = 0b101; }
}

// labels
namespace n9 {
__global__ void k(int* x) { int i = 0; again: if (i < 3) { i++; goto again; } x[0] = i; do { i--; } while (i); x[1] = i; }
}

// nested lambda and auto
namespace n10 {
__global__ void k(float* x) { auto add = [](auto a, auto b) { return a + b; }; x[0] = add(1, 2.f); auto t = [x]() mutable { x[1] = 2; return x; }(); t[2] = 3; }
}

// variadic templates
namespace n11 {
template <class... T> __device__ auto sum(T... t) { return (t + ...); } template <class F, class... A> __global__ void apply(F f, float* out, A... a) { out[0] = f(a...) + sum(a...); }
struct Plus { __device__ float operator()(float a, float b) const { return a + b; } };
void run(float* x) { apply<<<1, 1>>>(Plus(), x, 1.f, 2.f); apply<Plus, float, float><<<1, 1>>>(Plus{}, x, 1, 2); }
}

// inheritance and virtual
namespace n12 {
struct Base { __device__ virtual float f() const { return 1; } }; struct Derived : Base { __device__ float f() const override { return 2; } };
__global__ void k(float* x) { Derived d; const Base& b = d; x[0] = b.f(); }
}

// new delete malloc
namespace n13 {
__global__ void k(int** x) { x[0] = new int[4]; delete[] x[0]; int* p = (int*)malloc(16); free(p); memset(x, 0, 4); memcpy(x, x + 1, 4); }
}

// function pointers
namespace n14 {
typedef float (*F)(float); __device__ float sq(float x) { return x * x; } __device__ F table[] = {sq, sq}; __device__ F one = sq;
__global__ void k(float* x) { F f = sq; x[0] = f(x[0]) + table[1](x[1]) + (*one)(2); }
}

// static in device function
namespace n15 {
__device__ int next() { static int n = 0; return atomicAdd(&n, 1); } __global__ void k(int* x) { x[0] = next(); }
}

// constexpr arrays
namespace n16 {
__constant__ int offs[4][2] = {{0, 1}, {1, 0}, {0, -1}, {-1, 0}}; __device__ const float w[] = {.1f, .2f}; constexpr int T = 8; static const int U = 9; const float cf = 2.5f;
__global__ void k(float* x) { __shared__ float s[T][U + 1]; s[threadIdx.x][0] = w[0] * offs[1][0] * cf; x[0] = s[0][0]; }
}

// warp functions
namespace n17 {
__global__ void k(int* x) { int v = x[threadIdx.x]; v += __shfl_down_sync(0xffffffff, v, 16); v += __shfl_xor_sync(~0u, v, 1, 16); unsigned m = __ballot_sync(-1, v > 3); x[0] = __popc(m) + __ffs(m) + __clz(m) + __any_sync(0xffffffffu, v) + __activemask(); __syncwarp(); float f = __shfl_sync(0xffffffff, 1.5f, 0); long long l = __shfl_up_sync(0xffffffff, 5ll, 1); double d = __shfl_sync(~0, 2.0, 1); unsigned u = __shfl_sync(~0u, 3u, 1); x[1] = f + l + d + u; }
}

// atomics
namespace n18 {
__global__ void k(int* i, unsigned* u, unsigned long long* l, float* f, double* d) { atomicAdd(i, 1); atomicAdd(u, 1); atomicAdd(l, 1); atomicAdd(f, 1); atomicAdd(d, 1); atomicSub(i, 2); atomicMax(i, 3); atomicMin(u, 3); atomicExch(f, 3); atomicCAS(i, 1, 2); atomicOr(u, 3); atomicXor(l, 4); atomicInc(u, 5); atomicAnd(i, 2); atomicAdd((unsigned long long*)l, (unsigned long long)-1); atomicCAS((unsigned long long*)d, 0ull, 1ull); atomicAdd(&i[3], threadIdx.x); }
}

// extern templ shared
namespace n19 {
template <typename T> struct SharedMemory { __device__ inline operator T*() { extern __shared__ int __smem[]; return (T*)__smem; } __device__ inline operator const T*() const { extern __shared__ int __smem[]; return (T*)__smem; } };
template <> struct SharedMemory<double> { __device__ inline operator double*() { extern __shared__ double __smem_d[]; return (double*)__smem_d; } };
template <class T> __global__ void k(T* x) { T* s = SharedMemory<T>(); s[threadIdx.x] = x[0]; x[1] = s[0]; }
void run(float* x) { k<float><<<1, 2, 64>>>(x); k<<<1, 2, 64>>>((double*)x); }
}

// pragma and attributes
namespace n20 {
__global__ void __launch_bounds__(128) k([[maybe_unused]] float* __restrict__ x, int) { 
#pragma unroll 1
for (int i = 0; i < 2; ++i) { x[i] = 0; }
#pragma nv_diag_suppress 177
int unused; }
}

// comma, ternary types
namespace n21 {
__global__ void k(float* x, int n) { for (int i = threadIdx.x, s = blockDim.x; i < n; i += s, x[0]++) x[i] = i > 2 ? 1 : 2.5; x[1] = (n > 2) ? x[0] : 0; bool b = x[0]; x[2] = !b; x[3] = -b; }
}

// typedef func param array
namespace n22 {
typedef float Row[4]; __device__ void f(Row* r, Row q, float (&w)[4]) { r[0][1] = q[2] + w[3]; } __global__ void k(Row* r) { Row own = {1, 2, 3, 4}; f(r, own, own); }
}

// using alias, template alias, default targs
namespace n23 {
template <class T = float, int N = 4> struct alignas(sizeof(T) * N) Vec { T v[N]; }; template <class T> using V4 = Vec<T, 4>; __global__ void k(V4<float>* x, Vec<>* y) { x[0] = y[1]; x[1].v[0] = y[0].v[1]; V4<float> z{}; x[2] = z; }
}

// if init, structured binding
namespace n24 {
__global__ void k(int* x) { if (int i = threadIdx.x; i < 4) x[i] = 1; struct P { int a, b; } p{1, 2}; auto [a, b] = p; x[4] = a + b; auto& [c, d] = p; c = 3; x[5] = p.a + d; }
}

// asm-free intrinsics
namespace n25 {
__global__ void k(float* x, int* i) { x[0] = __fdividef(x[0], x[1]) + __expf(x[0]) + __powf(x[0], x[1]) + rsqrtf(x[0]) + __frcp_rn(x[0]) + __fmaf_rn(x[0], x[1], x[2]) + __saturatef(x[0]) + fmaf(1, 2, 3) + __int_as_float(i[0]) + __uint2float_rn(3u) + __sinf(1) + exp2f(x[0]) + cbrtf(x[0]) + erff(x[0]) + tgammaf(x[0]) + lgammaf(x[0]) + rintf(x[0]) + nearbyintf(x[0]) + ldexpf(x[0], 2) + scalbnf(x[0], 2) + logbf(x[0]) + fdimf(x[0], 1) + remainderf(x[0], 2) + nextafterf(x[0], 1) + j0f(x[0]) + ynf(2, x[0]) + normcdff(x[0]); i[0] = __float2int_rn(x[0]) + __mul24(1, 2) + __byte_perm(1, 2, 3) + __brev(1) + __funnelshift_l(1, 2, 3) + __vadd4(1, 2) + __dp4a(1, 2, 3) + lrintf(x[0]) + llroundf(x[0]) + ilogbf(x[0]) + __float_as_int(x[0]) + __hadd(1, 2); int e; x[1] = frexpf(x[0], &e) + modff(x[0], x + 3) + remquof(x[0], 2, &e); }
}

// half
namespace n26 {
__global__ void k(__half* h, half2* h2, float* f) { h[0] = __float2half(1.0f); h[1] = h[0] + h[1]; h[2] = __hmul(h[0], h[1]); f[0] = __half2float(h[2]) + (float)h[1]; h2[0] = __hadd2(h2[0], h2[1]); h2[1] = __floats2half2_rn(1, 2); half a = 1.0f; a += h[0]; h[3] = a > h[1] ? a : hsqrt(h[1]); h2[2] = __half2half2(a); f[1] = __low2float(h2[0]) + __high2float(h2[1]); h2[3] = make_half2(a, a); h[4] = half(3); h[5] = __int2half_rn(4); atomicAdd(h, a); h[6] = max(f[0], 1.0f); h[7] = __hmax(a, h[0]); if (__hgt(a, h[0])) h[8] = -a; h[9] = hexp(a); f[2] = h2[0].x; }
}

// bf16
namespace n27 {
__global__ void k(__nv_bfloat16* h, __nv_bfloat162* h2, float* f) { h[0] = __float2bfloat16(1.0f); h[1] = h[0] * h[1]; f[0] = __bfloat162float(h[1]) + float(h[0]); h2[0] = __floats2bfloat162_rn(1, 2); h2[1] = h2[0] + h2[0]; h[2] = (__nv_bfloat16)2.0f; nv_bfloat16 q = h[0]; h[3] = q; }
}

// cg
namespace n28 {
namespace cg = cooperative_groups;
__global__ void k(int* x) { auto b = cg::this_thread_block(); cg::thread_block_tile<32> t = cg::tiled_partition<32>(b); int v = cg::reduce(t, x[b.thread_rank()], cg::plus<int>()); if (t.thread_rank() == 0) x[0] = v + t.shfl_down(v, 1) + t.size() + t.meta_group_rank(); b.sync(); cg::coalesced_group a = cg::coalesced_threads(); x[1] = a.size(); cg::sync(b); auto g = cg::this_grid(); x[2] = g.size() + g.thread_rank() + b.group_index().x + b.thread_index().y; }
}

// streams
namespace n29 {
void run(float* h) { float* d; cudaStream_t s; cudaStreamCreate(&s); cudaEvent_t e; cudaEventCreate(&e); cudaMalloc((void**)&d, 4); cudaMalloc(&d, 4); cudaMemcpyAsync(d, h, 4, cudaMemcpyHostToDevice, s); cudaEventRecord(e, s); cudaEventSynchronize(e); cudaStreamSynchronize(s); cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); printf("%s %d %zu", p.name, p.major, p.sharedMemPerBlock); cudaError_t r = cudaGetLastError(); if (r != cudaSuccess) fprintf(stderr, "%s\n", cudaGetErrorString(r)); cudaFree(d); cudaDeviceReset(); }
}

// device vars
namespace n30 {
__device__ float acc; __device__ int arr[10]; __managed__ int man; __device__ __constant__ float both; static __constant__ float st[2]; __device__ static int ds; extern __device__ int later;
__global__ void k() { acc += 1; arr[1] = man + later + both + st[0] + ds; } void run() { float f; cudaMemcpyFromSymbol(&f, acc, 4); cudaMemcpyToSymbol(st, &f, 4, 4); void* p; cudaGetSymbolAddress(&p, arr); man = 3; }
}

// recursion and overload
namespace n31 {
__device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); } __device__ float g(float x) { return x; } __device__ double g(double x) { return x; } __host__ __device__ int g(int x) { return x; } __global__ void k(int* x) { x[0] = fib(5) + g(1) + g(1.f) + g(1.0); }
}

// friend ops
namespace n32 {
struct C { float re, im; __host__ __device__ C(float r = 0, float i = 0) : re(r), im(i) {} friend __device__ C operator*(const C& a, const C& b) { return C(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re); } __device__ C& operator+=(const C& o) { re += o.re; im += o.im; return *this; } __device__ explicit operator bool() const { return re; } };
__global__ void k(C* c) { C z = c[0] * c[1]; z += C(1); z += 2.0f; if (z) c[2] = z; __shared__ float sh[2]; sh[0] = z.re; }
}

// float4 loads
namespace n33 {
__global__ void k(const float* __restrict__ x, float* y) { float4 v = *reinterpret_cast<const float4*>(x + 4); reinterpret_cast<float4*>(y)[0] = v; float2 w = __ldg((const float2*)x); ((float2*)y)[1] = w; float* p = &v.x; y[0] = p[2]; (&v.x)[1] = 2; float arr[4] = {v.x, v.y, v.z, v.w}; y[1] = arr[3]; y[2] = ((float*)&v)[1]; }
}

// sizeof, offset, bit fields
namespace n34 {
struct B { unsigned a : 3, b : 5; int c; }; union U { float f; unsigned u; }; __global__ void k(unsigned* x) { B b; b.a = 5; b.b = 3; U u; u.f = 1.0f; x[0] = b.a + u.u + sizeof(B) + alignof(B) + offsetof(B, c); static_assert(sizeof(U) == 4); x[1] = 1u << 31; x[2] = x[1] >> 3 & 0xff | 0x10; }
}

// local arrays 2d and init lists
namespace n35 {
__global__ void k(float* x) { float a[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}; float b[] = {1, 2, 3}; float s = 0; for (int i = 0; i < 3; i++) for (float v : a[i]) s += v * b[i]; x[0] = s; int z[4] = {}; x[1] = z[2]; float (*p)[3] = a; x[2] = p[1][1]; }
}

// macro kernels
namespace n36 {
#define DEFINE_KERNEL(name, op) __global__ void name##_kernel(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] = x[i] op 2; }
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)
DEFINE_KERNEL(mul, *) DEFINE_KERNEL(add, +)
#define RUN(name, ...) name##_kernel<<<1, 32>>>(__VA_ARGS__)
void run(float* x) { RUN(mul, x, 3); RUN(add, x, 4); CHECK(cudaDeviceSynchronize()); }
}

// kernel in class / static / template member launch
namespace n37 {
struct Runner { template <class T> static void go(T* x) { helper<T><<<1, 1>>>(x); } template <class T> static void helper(T*); };
template <class T> __global__ void hk(T* x) { x[0] = 1; } template <class T> struct Launcher { int n; void operator()(T* x) { hk<T><<<n, n>>>(x); hk<typename std::remove_const<T>::type><<<1, 1>>>(x); } };
}

// launch forms
namespace n38 {
__global__ void k(int* x) {} __global__ void none() {}
void run(int* x, cudaStream_t s, int n) { k<<<n / 2 + 1, (n > 32) ? 32 : n>>>(x); k<<<dim3(n, 2), dim3(3, 4, 5), n * sizeof(float), s>>>(x); none<<<1, 1>>>(); auto f = &k; f<<<1, 1>>>(x); if (n) k<<<1, 1>>>(x); else none<<<1, 1>>>(); for (int i = 0; i < n; i++) k<<<i + 1, 1, 0>>>(x + i); k<<<n >> 1, 1 << 2>>>(x); size_t big = 3; k<<<big, big>>>(x); unsigned u = 3; k<<<u, 3u>>>(x); k<<<(n + 255) / 256, 256, 0, 0>>>(x); (none<<<1, 1>>>()); }
}

// extended: typename missing, template kw missing
namespace n39 {
template <class T> struct Trait { typedef T type; template <int N> struct In { T v[N]; }; template <int N> __device__ T get() { return N; } };
template <class T> __global__ void k(T* x) { typename Trait<T>::type v = x[0]; Trait<T> t; x[1] = t.template get<3>() + v; typename Trait<T>::template In<2> in; in.v[0] = 1; x[2] = in.v[0]; }
template __global__ void k<float>(float*);
}

// unusual but ok
namespace n40 {
__global__ void k(int* x) { int _ = 3; int $a = 4; x[0] = _ + $a; ; ; { } int y(3), z{4}; x[1] = y ^ z; x[2] = x[0] <= 3 and x[1] >= 2 or not x[3]; x[3] = sizeof x; x[4] = 'ab' ; x[5] = "abc"[1]; x[6] = __LINE__; }
}

// device printf of types
namespace n41 {
__global__ void k(float* x) { printf("%d %u %lld %f %s %c %p %%\n", (int)threadIdx.x, blockIdx.x, 3ll, x[0], "s", 'c', x); printf("plain"); }
}

// volatile
namespace n42 {
__global__ void k(volatile float* v, int* lock) { volatile __shared__ float s[32]; s[threadIdx.x] = v[0]; s[0] += s[1]; v[1] = s[0]; while (atomicCAS(lock, 0, 1) != 0); __threadfence(); atomicExch(lock, 0); volatile int n = 3; n++; volatile int* p = lock; *p = n; }
}

// const cast etc
namespace n43 {
__global__ void k(const int* x) { int* y = const_cast<int*>(x); y[0] = static_cast<int>(3.7f) + int(2.2) + (int)1.1 + char(3); long l = 3L; unsigned long ul = 4UL; y[1] = l + ul; size_t s = 4; ptrdiff_t d = y - x; uint32_t a = 3; int64_t b = 4; uint8_t c = 5; y[2] = s + d + a + b + c; uchar4 u = make_uchar4(1, 2, 3, 4); y[3] = u.w; }
}

// class template partial spec
namespace n44 {
template <class T, int N> struct Red { __device__ static T f(T v) { return v + Red<T, N / 2>::f(v); } }; template <class T> struct Red<T, 0> { __device__ static T f(T v) { return v; } }; __global__ void k(int* x) { x[0] = Red<int, 8>::f(1); }
}

// pipeline
namespace n45 {
__global__ void k(const float* x, float* y) { __shared__ float s[32]; __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], sizeof(float)); __pipeline_commit(); __pipeline_wait_prior(0); __syncthreads(); y[threadIdx.x] = s[threadIdx.x]; __syncthreads_count(1); }
}

// numeric_limits in constexpr? host
namespace n46 {
void host() { std::vector<float> v(3); std::string s; v[0] = std::numeric_limits<float>::max(); auto f = [&] { return v.size(); }; f(); }
}

// int types shared struct with ctor default
namespace n47 {
struct Acc { float s; int n; __device__ Acc() = default; __device__ Acc(float a, int b) : s(a), n(b) {} }; __global__ void k(float* x) { __shared__ Acc a[4]; a[0] = Acc(1, 2); Acc t = a[0]; x[0] = t.s; }
}

// unions of vectors and shared pun
namespace n48 {
__global__ void k(float* x) { __shared__ __align__(16) char raw[256]; float* f = (float*)raw; int* i = (int*)(raw + 128); f[0] = 1; i[0] = 2; x[0] = f[0] + i[0]; __shared__ float2 s2[8]; s2[0].x = 3; x[1] = s2[0].x; __shared__ bool flag; flag = true; if (flag) x[2] = 1; __shared__ unsigned long long big; big = 3; }
}

// clock, nanosleep, trap, assume
namespace n49 {
__global__ void k(long long* x) { long long t = clock64(); x[0] = clock64() - t; clock_t c = clock(); x[1] = c; __nanosleep(10); if (x[0] < 0) __trap(); __builtin_assume(x[0] > 0); x[2] = __builtin_expect(x[0], 1); unsigned s = warpSize; x[3] = s; }
}

// ++ on a bool, with a warning
namespace n51 {
struct F { bool seen; bool many[4]; }; __device__ bool once(bool& flag, volatile bool* p, int n) { bool found = false, all; int ok = 0; all = found++; ++found; ++flag; (*p)++; p[n++]++; ++p[1]; ok++; return all; }
__global__ void k(F* f, bool* x) { __shared__ bool s; s = false; s++; f->seen++; f[1].many[2]++; bool b = x[0]++; for (int i = 0; i < 4; i++) b |= x[i]; x[3] = b; }
}

// launches through what gives a kernel's address
namespace n50 {
typedef void (*K)(int*); __global__ void ten(int* p) { atomicAdd(p, 10); } __global__ void over(int* p) {} __global__ void over(int* p, int) {} template <class T> __global__ void tk(T* p) {}
struct S { K kernel; K operator()(int) const { return kernel; } template <int N> K f() const { return tk<int>; } void go(int* p) const { (*this).kernel<<<1, 2>>>(p); } }; struct W { K k; operator K() const { return k; } };
template <class T> void gen(T obj, int* p) { obj.template f<2>()<<<1, 1>>>(p); typename std::decay<K>::type(ten)<<<1, 2>>>(p); } template <class F> void call(F&& f, int* p) { f<<<1, 1>>>(p); std::forward<F>(f)<<<1, 1>>>(p); }
void run(int* p, bool cond) { S s{ten}; K *pk = &s.kernel, **ppk = &pk; volatile K vk = ten; K& rk = s.kernel; void (&fr)(int*) = ten; constexpr auto ck = ten; std::vector<S> vs{s}; gen(s, p); call(ten, p); call(pk[0], p); W{ten}.k<<<1, 1>>>(p); W w{ten}; w<<<1, 1>>>(p);
  (over)<<<1, 1>>>(p); (&over)<<<1, 1>>>(p, 1); (tk)<<<1, 1>>>(p); (&tk<int>)<<<1, 1>>>(p); (**ppk)<<<1, 2>>>(p); s(3)<<<1, 2>>>(p); s.operator()(3)<<<1, 2>>>(p); (s.*(&S::kernel))<<<1, 2>>>(p); vs[0].f<5>()<<<1, 2>>>(p); vk<<<1, 2>>>(p); rk<<<1, 2>>>(p); fr<<<1, 2>>>(p); ck<<<1, 2>>>(p);
  [](int) -> K { return ten; }(3)<<<1, 2>>>(p); static_cast<K>(ten)<<<1, 2>>>(p); K{ten}<<<1, 2>>>(p); decltype(s(1))(ten)<<<1, 2>>>(p); cond ? s.kernel<<<1, 2>>>(p) : vs.at(0)(1)<<<1, 2>>>(p); (void)s.kernel<<<1, 2>>>(p); do s.kernel<<<1, 2>>>(p); while (0); for (auto k : {ten, s(2)}) k<<<1, 2>>>(p); { } (cond ? ten : s(1))<<<1, 2>>>(p); }
}

// digraphs
namespace n_digraphs <%
%:define TWICE(a) a %:%: a
__global__ void k(int* o) <% __shared__ int t<:32:>; t<:threadIdx.x:> = TWICE(1); __syncthreads(); o<:threadIdx.x:> = t<:31 - threadIdx.x:>; %>
void run(int* o) <% k<<<1, 32>>>(o); %>
%>

// a launch that a macro makes over several lines
namespace n_spliced {
#define LAUNCH(k, ...) k <\
<\
<__VA_ARGS__>\
>>
__global__ void k(int* o) { o[threadIdx.x] = threadIdx.x; }
void run(int* o) { LAUNCH(k, 1, 32)(o); }
}
