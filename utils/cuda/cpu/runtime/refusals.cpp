// Launches that CUDA would refuse, and why.
#include <string>

#include "cuda_on_cpu/host.h"
#include "profile.h"
#include "runtime.h"
#include "../host/resources.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

static thread_local std::string refusal;

const char* refusal_text() {
    static thread_local std::string text;
    text = refusal.empty() ? "" : ": " + refusal;
    return text.c_str();
}

bool refuse(const char* name, const Launch& launch, const std::string& why, cudaError_t error) {
    refusal = why;
    if (why.empty()) return false;
    last_error() = error;
    if (tracing) trace_refused(*tracing, name, why, launch.launched_at);
    return true;
}

static std::string text(dim3 d) {
    return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
}

// Why CUDA refuses a launch's clusters, empty if it does not. The rules are those of the programming guide; which of its
// errors CUDA gives for each was not measured.
static std::string why_no_clusters(const Launch& l) {
    const dim3 c = l.cluster;
    if (profile.capability < 90)
        return "clusters of blocks need compute capability 9.0, that of an H100 or H200, and this GPU's is " +
               std::to_string(profile.capability / 10) + "." + std::to_string(profile.capability % 10);
    if (l.cluster_of_kernel.x && (l.cluster_of_kernel.x != c.x || l.cluster_of_kernel.y != c.y || l.cluster_of_kernel.z != c.z))
        return "the launch asks for clusters of " + text(c) + " blocks, and the kernel's __cluster_dims__ for " +
               text(l.cluster_of_kernel);
    const uint64_t size = uint64_t(c.x) * c.y * c.z, most = l.large_clusters ? Profile::most_cluster : Profile::cluster;
    if (size == 0) return "a cluster of " + text(c) + " blocks is empty";
    if (size > most)
        return "a cluster of " + text(c) + " has " + std::to_string(size) + " blocks, and CUDA allows " +
               std::to_string(most) +
               (l.large_clusters ? "" : ", or 16 with cudaFuncAttributeNonPortableClusterSizeAllowed");
    if (l.most_cluster && size > l.most_cluster)
        return "a cluster of " + text(c) + " has " + std::to_string(size) +
               " blocks, and the kernel's __launch_bounds__ allows " + std::to_string(l.most_cluster);
    if (l.grid.x % c.x || l.grid.y % c.y || l.grid.z % c.z)
        return "a grid of " + text(l.grid) + " blocks is not a multiple of its clusters of " + text(c);
    return "";
}

// Static and dynamic memory together are at most 48 KB, or all that the GPU has if the kernel has opted in to more.
std::string why_too_much_shared(const Launch& l, size_t static_bytes) {
    const size_t opt_in = profile.shared_bytes_opt_in;
    const auto allowed = l.any_shared_bytes ? opt_in : allowed_shared(l.kernel);
    const size_t together = allowed ? opt_in : profile.shared_bytes, dynamic = allowed.value_or(together);
    const bool dynamic_fits = l.shared_bytes <= dynamic;
    if (dynamic_fits && static_bytes + l.shared_bytes <= together) return "";
    const size_t limit = dynamic_fits ? together : dynamic;
    return std::to_string(l.shared_bytes) + " bytes of dynamic shared memory" +
           (dynamic_fits ? " and " + std::to_string(static_bytes) + " of static" : "") + " are more than the " +
           std::to_string(limit) + " that this kernel may have" +
           (limit < opt_in ? ": cudaFuncSetAttribute allows up to " + std::to_string(opt_in) : "");
}

// Why CUDA refuses a launch, empty if it does not. CUDA 13 calls every reason an invalid argument (measured on an
// H200, driver 580); CUDA 12 calls those that concern numbers of blocks and threads an invalid configuration argument.
std::string why_refused(const Launch& l) {
    const Profile& p = profile;
    uint64_t threads = uint64_t(l.block.x) * l.block.y * l.block.z;
    if (!is_stream(l.stream)) return "its stream has been destroyed, or is none";
    if (threads == 0) return "a block of " + text(l.block) + " threads is empty";
    if (l.grid.x == 0 || l.grid.y == 0 || l.grid.z == 0) return "a grid of " + text(l.grid) + " blocks is empty";
    if (threads > p.block_threads)
        return "a block of " + text(l.block) + " has " + std::to_string(threads) + " threads, and CUDA allows " +
               std::to_string(p.block_threads);
    const Resources taken = resources(l.kernel).value_or(Resources());
    const unsigned int bound = l.most_threads ? l.most_threads : taken.most_threads;
    if (bound && threads > bound)
        return "a block of " + text(l.block) + " has " + std::to_string(threads) +
               " threads, and the kernel's __launch_bounds__ allows " + std::to_string(bound);
    if (l.block.z > p.block_dim[2])
        return "a block has at most " + std::to_string(p.block_dim[2]) + " threads along z, not " +
               std::to_string(l.block.z);
    if (l.grid.x > p.grid_dim[0] || l.grid.y > p.grid_dim[1] || l.grid.z > p.grid_dim[2])
        return "a grid has at most " + std::to_string(p.grid_dim[0]) + " blocks along x and " +
               std::to_string(p.grid_dim[1]) + " along y and z, not " + text(l.grid);
    if (const std::string why = why_too_much_shared(l, l.shared_bytes ? taken.shared_bytes : 0); !why.empty()) return why;
    return l.cluster.x || l.cluster.y || l.cluster.z ? why_no_clusters(l) : "";
}

// With the most registers that a thread can have, 256 threads always fit.
std::string why_too_many_registers(const Launch& l) {
    const uint64_t threads = uint64_t(l.block.x) * l.block.y * l.block.z;
    const auto taken = threads > 256 ? resources(l.kernel) : std::nullopt;
    if (!taken || !taken->registers || threads <= threads_with(taken->registers)) return "";
    return "a block of " + text(l.block) + " has " + std::to_string(threads) + " threads, and with the " +
           std::to_string(taken->registers) + " registers that each of them needs, a multiprocessor has room for " +
           std::to_string(threads_with(taken->registers)) + ": use smaller blocks, or __launch_bounds__(" +
           std::to_string(threads) + ") for the kernel";
}

std::string why_not_together(const Launch& l) {
    const uint64_t threads = uint64_t(l.block.x) * l.block.y * l.block.z;
    const uint64_t blocks = uint64_t(l.grid.x) * l.grid.y * l.grid.z;
    const Resources taken = resources(l.kernel).value_or(Resources());
    const int resident = resident_blocks(threads, taken.shared_bytes + l.shared_bytes, taken.registers);
    if (blocks <= uint64_t(resident) * profile.multiprocessors) return "";
    return std::to_string(blocks) + " blocks of " + text(l.block) + " threads do not run side by side";
}

}  // namespace cuda_on_cpu
