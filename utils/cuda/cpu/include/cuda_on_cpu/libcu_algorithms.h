// Algorithms that several headers of libcu++ have.
#pragma once

#include <algorithm>

#include "libcu.h"

namespace cuda::std {
using ::std::copy; using ::std::copy_backward; using ::std::copy_n; using ::std::count; using ::std::equal;
using ::std::fill; using ::std::fill_n; using ::std::find; using ::std::find_end; using ::std::find_first_of;
using ::std::find_if; using ::std::iter_swap; using ::std::lexicographical_compare; using ::std::max;
using ::std::max_element; using ::std::min; using ::std::min_element; using ::std::move_backward; using ::std::remove;
using ::std::remove_if; using ::std::rotate; using ::std::search; using ::std::swap_ranges;
}  // namespace cuda::std
