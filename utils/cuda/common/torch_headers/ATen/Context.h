// Stands in for torch's header of this name. Each of ATen/ops/*.h includes it, needs nothing of it and takes more than
// a second for it: where torch/types.h beside includes those, it is left out.
#ifndef CUDA_COURSE_OPERATIONS_ALONE
#include_next <ATen/Context.h>
#endif
