"""Lesson 02's grayscale kernel in Numba's CUDA simulator, one launch:

    NUMBA_ENABLE_CUDASIM=1 python -m bench.numba_simulator HEIGHT WIDTH

Prints JSON: {"seconds": the launch's time}, or {"lacking": why Numba could not be imported}.
"""

import json
import sys
import time

import numpy as np

try:
    from numba import cuda
except ImportError as error:
    print(json.dumps({"lacking": str(error)}))
    sys.exit()


@cuda.jit
def rgb2grey(x, out, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:  # guard
        out[i] = 0.2989 * x[i] + 0.5870 * x[i + n] + 0.1140 * x[i + 2 * n]


def main(height, width):
    n, threads = height * width, 256
    x = np.random.default_rng(0).integers(0, 256, 3 * n, dtype=np.uint8)
    out = np.zeros(n, np.uint8)
    blocks = (n + threads - 1) // threads
    rgb2grey[1, 1](x, out, 1)  # to warm up
    start = time.perf_counter()
    rgb2grey[blocks, threads](x, out, n)
    seconds = time.perf_counter() - start
    reference = np.floor(np.array([0.2989, 0.5870, 0.1140]) @ x.reshape(3, n))
    np.testing.assert_allclose(out, reference, rtol=0, atol=1)  # the sum may be rounded differently
    return {"seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))
