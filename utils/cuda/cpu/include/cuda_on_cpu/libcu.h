// What the headers of libcu++ have in common.
//
// cuda::std has the types and functions of the standard library that libcu++ has, for kernels too. Each is named: with
// all of `std`, a source's `using namespace cuda::std` would bring two of what libcu++ has in a way of its own.
#pragma once

#include "libcu_names.h"

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

namespace std {
using ::cuda::thread_scope;
using ::cuda::thread_scope_block;
using ::cuda::thread_scope_device;
using ::cuda::thread_scope_system;
using ::cuda::thread_scope_thread;
}  // namespace std

}  // namespace cuda
