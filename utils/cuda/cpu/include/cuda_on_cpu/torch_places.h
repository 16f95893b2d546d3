// Which of torch's tensors are the host's, where all of them are on the CPU (torch_places.py).
#pragma once

#include <torch/types.h>

#include <type_traits>

namespace cuda_on_cpu {

// In runtime/messages.cpp. While `on`, what this thread allocates for tensors is the host's; returns what it was before.
bool tensors_of_host(bool on);
bool is_tensor_of_host(const void* data);

struct TensorsOfHost {
    bool before;
    explicit TensorsOfHost(bool on) : before(tensors_of_host(on)) {}
    ~TensorsOfHost() { tensors_of_host(before); }
};

template <class Make>
at::Tensor on_host(Make make) {
    TensorsOfHost those(true);
    return make();
}

// What `move` returns; a copy if it returns the tensor itself, which on a GPU would be elsewhere.
template <class T, class Move>
auto moved(T&& moving, bool to_host, Move move) {
    TensorsOfHost those(to_host);
    auto result = move(moving);
    if constexpr (std::is_base_of_v<at::TensorBase, std::decay_t<T>>)  // a network's `to` is none of our business
        if (result.is_alias_of(moving) && is_tensor_of_host(moving.data_ptr()) != to_host) return result.clone();
    return result;
}

}  // namespace cuda_on_cpu
