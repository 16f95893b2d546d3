// The variables of a module, as its file names them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cuda_on_cpu {

// A variable, as a file's symbol table has it; without a name, what the compiler has made of a class.
struct Symbol {
    uintptr_t begin = 0;
    size_t bytes = 0;
    std::string name;
    std::string table_of = "";  // the class, mangled, if it is its table of virtual functions
};
std::vector<Symbol> variables_in_file(const char* path, uintptr_t loaded_at);  // by address

}  // namespace cuda_on_cpu
