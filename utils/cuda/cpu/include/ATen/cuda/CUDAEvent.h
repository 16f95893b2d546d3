// Stands in for torch's header of this name: a CUDA event that destroys itself.
#pragma once

#include <ATen/cuda/CUDAContext.h>

#include <utility>

namespace at::cuda {
struct CUDAEvent {
    explicit CUDAEvent(unsigned int flags = cudaEventDisableTiming) : flags(flags) {}
    CUDAEvent(CUDAEvent&& other) noexcept : flags(other.flags), handle(std::exchange(other.handle, nullptr)) {}
    CUDAEvent& operator=(CUDAEvent&& other) noexcept {
        std::swap(flags, other.flags);
        std::swap(handle, other.handle);
        return *this;
    }
    ~CUDAEvent() {
        if (handle) (void)cudaEventDestroy(handle);
    }
    operator cudaEvent_t() const { return handle; }
    cudaEvent_t event() const { return handle; }
    bool isCreated() const { return handle; }
    bool query() const { return true; }
    void record() { record(getCurrentCUDAStream()); }
    void record(const CUDAStream& stream) {
        if (!handle) C10_CUDA_CHECK(cudaEventCreateWithFlags(&handle, flags));
        C10_CUDA_CHECK(cudaEventRecord(handle, stream));
    }
    void recordOnce(const CUDAStream& stream) {
        if (!handle) record(stream);
    }
    void block(const CUDAStream&) const {}
    void synchronize() const {}
    float elapsed_time(const CUDAEvent& later) const {
        float milliseconds = 0;
        C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, handle, later.handle));
        return milliseconds;
    }

private:
    unsigned int flags;
    cudaEvent_t handle = nullptr;
};
}  // namespace at::cuda
