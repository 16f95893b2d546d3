// What the headers of libcu++ have in common.
#pragma once

namespace std {}

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

namespace std {
using namespace ::std;  // libcu++ has the types and functions of the standard library, for kernels too
}

}  // namespace cuda
