// Which GPU of the table the engine behaves like.
#include "profile.h"

#include <strings.h>

#include <cstdio>
#include <cstdlib>

namespace cuda_on_cpu {

struct Limits {
    int capability;
    unsigned int threads, blocks;
    int registers;
    size_t shared_kb, block_shared_kb, reserved_bytes, shared_unit;
};

static constexpr Limits all_limits[] = {
#define CAPABILITY(...) {__VA_ARGS__},
#define GPU(...)
#include "../../common/gpus.h"
#undef CAPABILITY
#undef GPU
};

static constexpr Profile gpu(const char* key, const char* name, int capability, int multiprocessors, int clock_khz,
                             int memory_clock_khz, int memory_bus_bits, size_t l2_bytes) {
    const Limits* l = all_limits;
    while (l->capability != capability) l++;
    return {key, name, capability, multiprocessors, clock_khz, memory_clock_khz, memory_bus_bits, l2_bytes,
            l->threads, l->blocks, l->registers, l->shared_kb * 1024, l->block_shared_kb * 1024, l->reserved_bytes,
            l->shared_unit};
}

static constexpr Profile gpus[] = {
#define CAPABILITY(...)
#define GPU(...) gpu(__VA_ARGS__),
#include "../../common/gpus.h"
#undef CAPABILITY
#undef GPU
};

static Profile of_environment() {
    const char* name = getenv("CUDA_COURSE_GPU");
    for (const Profile& gpu : gpus)
        if (name && !strcasecmp(name, gpu.key)) return gpu;
    if (name) fprintf(stderr, "CUDA_COURSE_GPU is '%s', which is none of the GPUs that the engine knows\n", name);
    return gpus[0];
}

Profile profile = of_environment();

}  // namespace cuda_on_cpu

bool cuda_on_cpu_choose_gpu(const char* name) {
    using namespace cuda_on_cpu;
    for (const Profile& gpu : gpus)
        if (!strcasecmp(name, gpu.key)) {
            profile = gpu;
            return true;
        }
    return false;
}
