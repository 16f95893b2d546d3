"""Shared memory, by the banks that its accesses go to."""

import functools
from functools import partial

import torch

from tests.launches import integers
from tests.nsight.cases.adding import add_to, given

LAUNCHES = []
add = partial(add_to, LAUNCHES)


SHARED = r"""
// Thread t reads element t * stride of shared memory.
template <class T>
__global__ void shared_load(const T* x, T* out, int stride) {
    extern __shared__ char memory[];
    T* s = reinterpret_cast<T*>(memory);
    for (int k = threadIdx.x; k < blockDim.x * stride; k += blockDim.x) s[k] = x[k];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x * stride];
}

// Thread t writes element t * stride.
template <class T>
__global__ void shared_store(const T* x, T* out, int stride) {
    extern __shared__ char memory[];
    T* s = reinterpret_cast<T*>(memory);
    s[threadIdx.x * stride] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[(blockDim.x - 1 - threadIdx.x) * stride];
}

template <class T>
__global__ void shared_same(const T* x, T* out, int which) {
    __shared__ T s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[which];
}

// One thread of `every` reads.
template <class T>
__global__ void shared_some(const T* x, T* out, int every) {
    __shared__ T s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x % every == 0) out[threadIdx.x / every] = s[threadIdx.x];
}

// The first 16 lanes of each warp read.
template <class T>
__global__ void shared_half_warp(const T* x, T* out) {
    __shared__ T s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane < 16) out[warp * 16 + lane] = s[warp * 32 + lane];
}

// Lanes read where an index says.
template <class T>
__global__ void shared_gather(const T* x, const int* index, T* out) {
    __shared__ T s[256];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[index[threadIdx.x]];
}
"""
TYPES = {  # how many values of which dtype one element is
    "unsigned char": (1, torch.uint8),
    "short": (1, torch.int16),
    "float": (1, torch.float32),
    "float2": (2, torch.float32),
    "double": (1, torch.float64),
    "float4": (4, torch.float32),
}


def shared(kind, function, label, x, out, *numbers, **more):
    """A launch of 64 threads, the elements of x and out being of type `kind`."""
    count, dtype = TYPES[kind]
    args = given(x * count, out * count, *numbers, dtype=dtype)
    name = f"shared_{kind}_{label}".replace(" ", "_")
    add(name, SHARED, f"{function}<{kind}>", 1, 64, args, **more)


def strided(kind, function, label, stride):
    count, dtype = TYPES[kind]
    dynamic = 64 * stride * count * dtype.itemsize
    shared(kind, function, f"{label}_{stride}", 64 * stride, 64, stride, shared_bytes=dynamic)


for kind, strides in [
    ("float", (1, 2, 3, 4, 8, 16, 32, 33)),
    ("float2", (1, 2)),
    ("double", (1, 2, 4)),
    ("float4", (1, 2, 4)),
    ("unsigned char", (1, 4, 8)),
    ("short", (1, 3)),
]:
    for stride in strides:
        strided(kind, "shared_load", "stride", stride)
for kind, strides in [("float", (2, 32)), ("double", (1, 4)), ("float4", (1, 4)), ("unsigned char", (1, 4))]:
    for stride in strides:
        strided(kind, "shared_store", "store_stride", stride)
for kind in ("float", "double", "float4"):
    shared(kind, "shared_same", "same", 64, 64, 5)
for kind in ("double", "float4"):
    shared(kind, "shared_some", "every_2", 64, 32, 2)
    shared(kind, "shared_some", "every_8", 64, 8, 8)
    shared(kind, "shared_half_warp", "half_warp", 64, 32)


def shared_gather(kind):
    count, dtype = TYPES[kind]
    x, out = given(256 * count, 256 * count, dtype=dtype)()
    return [x, integers(256, below=256, seed=6), out]


for kind in ("float", "double", "float4"):
    args = functools.partial(shared_gather, kind)
    add(f"shared_{kind}_gather", SHARED, f"shared_gather<{kind}>", 1, 256, args, [2])
