// Counts the instructions of the units that do not work thread by thread, as Nsight Compute counts them: wgmma's in the
// unit "tensor" (other products are counted in tiles.cpp), and those of the bulk copy engine in the unit "tma".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "../runtime/bulk.h"
#include "cuda_on_cpu/ptx/wgmma.h"

namespace cuda_on_cpu {

// Of a GPU, for one product of a warp; `of_wmma`: nvcuda::wmma, or PTX's wmma.mma.
unsigned int instructions_of(const ptx::Product& product, bool of_wmma, int capability);

class Units {
public:
    void multiplied(const WarpgroupProduct& product, uintptr_t code);
    // An instruction of the copy engine, and the sectors of global memory that it reads or writes.
    void copied(const char* name, uintptr_t code, uint64_t sectors);
    std::string json() const;

private:
    struct Multiplied {
        WarpgroupProduct product;
        uint64_t count;
    };
    struct Copied {
        uint64_t count, sectors;
    };
    std::map<std::pair<uintptr_t, const WarpgroupProduct*>, Multiplied> products;
    std::map<std::pair<uintptr_t, std::string>, Copied> copies;
};

}  // namespace cuda_on_cpu
