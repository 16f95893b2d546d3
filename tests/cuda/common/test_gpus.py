"""The one table of GPUs, against NVIDIA's own occupancy calculator and in the words of its errors."""

import subprocess

import pytest

from utils.cuda.common import gpus
from utils.cuda.common.toolchain import cuda_home
from utils.ground.errors import CourseError
from utils.ground.system import cxx_compiler


def test_gpus_by_name():
    t4 = gpus.named("T4")
    assert (t4.full_name, t4.arch, t4.multiprocessors) == ("Tesla T4", "sm_75", 40)
    assert [gpus.named(name).multiprocessors for name in ("a100", "H100", "H200")] == [108, 132, 132]
    assert gpus.named("sm_75").limits == t4.limits and gpus.named("sm_86").limits.threads == 1536
    assert gpus.named("sm_75").multiprocessors == 0  # there is more than one GPU of an architecture
    with pytest.raises(CourseError, match=r"no GPU 'V100'.*T4, A100, H100, H200.*sm_86 \(GeForce RTX 30, .*sm_120 \("):
        gpus.named("V100")


def test_the_chosen_gpu(monkeypatch):
    monkeypatch.delenv("CUDA_COURSE_GPU", raising=False)
    assert (gpus.chosen().full_name, gpus.chosen().arch, gpus.chosen().multiprocessors) == ("CUDA on CPU", "sm_90", 8)
    monkeypatch.setenv("CUDA_COURSE_GPU", "t4")
    assert gpus.chosen() == gpus.named("T4") and gpus.chosen("A100") == gpus.named("A100")
    monkeypatch.setenv("CUDA_COURSE_GPU", "K80")
    with pytest.raises(CourseError, match="CUDA_COURSE_GPU is 'K80', which is not one .*: T4, A100, H100, H200$"):
        gpus.chosen()
    with pytest.raises(CourseError, match="gpu is 'sm_75', which is not one .*: T4, A100, H100, H200$"):
        gpus.chosen("sm_75")


CALCULATOR = """
#include <cuda_occupancy.h>
#include <initializer_list>
#include <cstdio>
int main() {
    for (int capability : {%s}) {
        cudaOccDeviceProp p;
        p.computeMajor = capability / 10;
        p.computeMinor = capability %% 10;
        int blocks = 0, warp_unit = 0, register_unit = 0, shared_unit = 0, registers = 0;
        cudaOccMaxBlocksPerMultiprocessor(&blocks, &p);
        cudaOccSubPartitionsPerMultiprocessor(&warp_unit, &p);
        cudaOccRegAllocationGranularity(&register_unit, &p);
        cudaOccSMemAllocationGranularity(&shared_unit, &p);
        cudaOccRegAllocationMaxPerThread(&registers, &p);
        printf("%%d %%d %%d %%d %%d %%d\\n", capability, blocks, warp_unit, register_unit, shared_unit, registers);
    }
}
"""


@pytest.mark.skipif(cuda_home() is None, reason="needs a header of the CUDA toolkit")
def test_the_limits_are_those_of_nvidia_s_calculator(tmp_path):
    known = {number: gpus.named(f"sm_{number}").limits for number in (75, 80, 86, 89, 90, 100, 120)}
    (tmp_path / "limits.cpp").write_text(CALCULATOR % ", ".join(map(str, known)))
    command = [cxx_compiler(), "-w", f"-I{cuda_home() / 'include'}", "limits.cpp", "-o", "limits"]
    subprocess.run(command, cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "limits"], capture_output=True, text=True, check=True).stdout
    for capability, blocks, *units in (map(int, line.split()) for line in printed.splitlines()):
        limits = known.pop(capability)
        assert blocks == limits.blocks
        # The calculator rounds up to 256 registers per thread; an instruction can name 255.
        assert units == [gpus.WARP_UNIT, gpus.REGISTER_UNIT, limits.shared_unit, gpus.REGISTERS_PER_THREAD + 1]
    assert not known
