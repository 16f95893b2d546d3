// In arrays.cpp: what the host's own code has from malloc and new.
#pragma once

#include <cstddef>
#include <string>

namespace cuda_on_cpu {

enum Source { from_malloc, from_new, from_new_array };

// `from` and `to` are the C library's or the C++ library's own functions. `bytes` is what `delete` says, or 0.
void* take_for_host(size_t bytes, Source source, void* (*from)(size_t));
void give_back_for_host(void* p, Source source, size_t bytes, void (*to)(void*));
void check_from_host(void* p);  // ends the host's call if malloc cannot have given this address
bool is_from_host(void* p, size_t& bytes);  // with take_for_host, and not given back
// 'memory of the host: ...', empty for any other address, and for what cudaHostRegister has registered.
std::string host_memory(const void* p);
// Ends the host's call if so many bytes at `p` are more than there are.
void check_host_array(const void* p, size_t bytes);
// Ends the host's call or the program; elsewhere, as in a destructor that Python runs, it only says what is wrong.
void refuse_host(const std::string& what);

}  // namespace cuda_on_cpu
