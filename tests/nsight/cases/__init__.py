"""The launches whose memory traffic Nsight Compute counts on a GPU and the engine counts on any machine.

Written as a learner would write them, small enough for the engine to run each in well under a second, and each about
one thing: how wide an access is, where it begins, how the lanes are spread, which of them take part.
"""

from tests.nsight.cases import (
    atomics,
    branches,
    copies,
    elements,
    matmul,
    pictures,
    shared_memory,
    tensor,
    transpose,
    units,
)

_FILES = (elements, pictures, branches, matmul, copies, transpose, shared_memory, atomics, tensor, units)  # as recorded
LAUNCHES = [launch for file in _FILES for launch in file.LAUNCHES]
