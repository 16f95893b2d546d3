"""The programs of tests/cuda/programs: what the host's side of CUDA does, in programs that run without torch."""

from pathlib import Path

import pytest
import torch

from utils.cuda import run

PROGRAMS = Path(__file__).parent / "programs"

GRAPHS = """\
captured 1 0: 0 after nothing has run
instantiated 0
three times: 42, 3 calls
destroyed 0 1
joined 0
3 nodes: 7, event 907
not joined 904
free again: 14 0
legacy stream 900
synchronize 900 901
device 900 901
malloc 900 901
relaxed malloc 0 0
memcpy 906 901
launch elsewhere 906 901
apart 0 0
nothing begun 401
made: 8, 2 calls, 0 errors
circle 0 1
changed arguments: 7 0, 1 and 0 calls
changed all: -1 2.8026e-45, 1 and 1 calls
changed nothing: 4 4, 2 and 1 calls
changed nodes: 1.5 -1, 2 and 2 calls
0 errors, of another kind 1
"""

HOST = """\
register 0 712 0 2 8 1000 0 713
pointers 1: 0 1 2 3
advice 0 0
pool 1 0
callback 10
device 67108864 0 peer 0 0 101 101 101
box 0 0: 0 0 0 0 0 5 6 0 0 9 10 0 0 0 0 0 0 17 18 0 0 21 22 0
complex 25 0 4 -0.2 5
set [cudaMemset(on_device, 0, sizeof z)] 0
"quoted" [conjugates<<<dim3(1, 1), 32>>>(on_device, int("\\t"[0]) - '\\t')] 0
conjugates<<<1, 32>>>(on_device, 2)
(conjugates<<<1, 32>>>(on_device, 2)), a + "b"
(conjugates<<<1, 32>>>(on_device, 2)), a + "b"
"""

# From an H200.
DIRECTIONS = """\
0:
1: local-host device-host pinned-host symbol-host host-local device-local pinned-local symbol-local
2: local-host host-local host-device local-device host-pinned local-pinned host-symbol local-symbol
3: local-host device-host pinned-host symbol-host host-local device-local pinned-local symbol-local \
host-device local-device host-pinned local-pinned host-symbol local-symbol
4:
asynchronous 1
memset 1 0
symbols 13 1
free 0 1 1
"""


PRINTED = [
    ("graphs", GRAPHS),
    ("host", HOST),
    ("directions", DIRECTIONS),
    ("names", "mode 1\nsum 32\nturned 4992, 6\n"),
]


@pytest.mark.skipif(torch.cuda.is_available(), reason="about the CPU engine")
@pytest.mark.parametrize(("name", "expected"), PRINTED)
def test_program(name, expected, capfd):
    code = run.main([str(PROGRAMS / f"{name}.cu")])
    said = capfd.readouterr()
    assert (said.out, code) == (expected, 0), said.err
