// n particles on a string, each pulled by its right neighbour. The last one has none.
struct Particle {
    float position, velocity, mass;
};

__global__ void pull(const Particle* particles, float* force, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    if (i < n - 1)
        force[i] = particles[i + 1].position - particles[i].position;
    else if (i < n)
        force[i] = 0.0f;
#else
    if (i < n)
        force[i] = particles[i + 1].position - particles[i].position;  // BUG: out_of_bounds
#endif
}
