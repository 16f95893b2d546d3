"""Which files are part of a build's name besides its source, and that a changed header means a new build."""

import os

import pytest
import torch

from utils import CompileError, compile_kernel, load_cuda
from utils.cuda.common.preprocessor import included, preprocessor_options


def names(*sources, options=()):
    return [os.path.basename(path) for path, _ in included(*sources, options=options)]


def test_options_as_a_compiler_writes_them():
    given = ("-DN=5", "-D", "M", "--define-macro=K=1", "--include-path", "a b", "-I", "c", "--use_fast_math", "-UX")
    assert preprocessor_options(given) == ["-DN=5", "-DM", "-DK=1", "-Ia b", "-Ic", "-UX"]


def test_headers_are_found_where_compilers_look(tmp_path, monkeypatch):
    first, second, here = (tmp_path / name for name in ("first", "second", "here"))
    for folder in (first, second, here, second / "deep"):
        folder.mkdir()
    (second / "a.h").write_text('#include "deep/b.h"\n')
    (second / "deep/b.h").write_bytes(b'// \xff not UTF-8\n#  include \\\n "c.h"\n#include "b.h"\n')
    (second / "deep/c.h").write_text("")
    (here / "near.h").write_text("")
    monkeypatch.chdir(here)
    inside = (f"-I{first}", "-I", str(second))
    assert names("#include <a.h>\n", options=inside) == ["a.h", "b.h", "c.h"]
    assert names("#include <a.h>\n") == names("int x;", options=inside) == []
    assert names('#include "near.h"\n') == names(f'#include "{here}/near.h"\n') == ["near.h"]
    assert names("#if __has_include(<a.h>)\n", options=("-I../second",)) == ["a.h", "b.h", "c.h"]
    assert names('#define HEADER "a.h"\n#include HEADER\n', options=inside) == ["a.h", "b.h", "c.h"]
    assert names("#include HEADER\n", options=('-DHEADER="a.h"', *inside)) == ["a.h", "b.h", "c.h"]
    monkeypatch.setenv("CPATH", str(second))
    assert names("#include <a.h>\n") == ["a.h", "b.h", "c.h"]
    monkeypatch.delenv("CPATH")
    before = included("#include <a.h>\n", options=inside)
    (first / "a.h").write_text("")  # comes before the other
    assert included("#include <a.h>\n", options=inside) != before


def test_links_and_circles_come_to_an_end(tmp_path):
    (tmp_path / "again").symlink_to(".")
    (tmp_path / "x.h").write_text('#include "again/x.h"\n#include "x.h"\n')
    os.mkfifo(tmp_path / "pipe.h")
    inside = (f"-I{tmp_path}",)
    assert names(
        '#include "x.h"\n#define HERE "/dev/zero"\n#include "again"\n#include "/dev/null"', options=inside
    ) == ["x.h"]
    for endless in ('"pipe.h"', "<pipe.h>", '"/dev/zero"'):
        with pytest.raises(CompileError, match="which is a device or a pipe: a header is a file"):
            included(f"int x;\n#include {endless}", options=inside)


SOURCE = '#include "value.h"\n__global__ void k(int* x) { x[0] = VALUE; }'


def test_a_changed_header_means_a_new_build(on_cpu, fresh, monkeypatch, tmp_path):
    x = torch.zeros(1, dtype=torch.int32)

    def result(*options):
        compile_kernel(SOURCE, "k", options)[1, 1](x)
        return x.item()

    header = tmp_path / "headers" / "value.h"
    header.parent.mkdir()
    header.write_text("#define VALUE 3\n")
    assert result(f"-I{header.parent}") == 3
    kept = os.stat(header)
    header.write_text("#define VALUE 4\n")
    os.utime(header, ns=(kept.st_atime_ns, kept.st_mtime_ns))  # the same size and time
    assert result(f"-I{header.parent}") == 4
    monkeypatch.chdir(header.parent)
    assert result() == 4, "as NVRTC, a compiler also looks in the current folder"
    os.chdir(tmp_path)
    with pytest.raises(CompileError, match="value.h"):
        result()


HEADERS = {
    "near.cuh": r"""#pragma once
#include "deep/where.cuh"
__global__ void twice(float* x, int n) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < n) x[threadIdx.x] = 2 * tile[63 - threadIdx.x] + where();
}
inline void launch(float* x, int n) { twice<<<1, 64>>>(x, n); }
""",
    "deep/where.cuh": r"""__host__ __device__ inline int where() {
#ifdef __CUDA_ARCH__
    return 1;
#else
    return 0;
#endif
}
""",
    "far/wrong.cuh": "__global__ void wrong(float* x) {\n    x[threadIdx.x + 1] = 1;\n}\n",
    "far/bad.cuh": "\n__global__ void bad(float* x) { x[0] = missing; }\n",
}
EXTENSION = """#include "near.cuh"
int of_host() { return where(); }
void run(torch::Tensor x) {
    launch(x.data_ptr<float>(), x.numel());
    twice<<<1, 64>>>(x.data_ptr<float>(), x.numel());
}"""


def test_headers_may_hold_kernels_and_launches(on_cpu, monkeypatch, tmp_path):
    for name, text in HEADERS.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    x = torch.arange(64.0)
    compile_kernel('#include "near.cuh"\n', "twice")[1, 64](x, 64)
    assert torch.equal(x, 2 * torch.arange(64.0).flip(0) + 1)
    x = torch.ones(64)
    module = load_cuda(EXTENSION, "int of_host(); void run(torch::Tensor x);", ["run", "of_host"])
    module.run(x)
    assert x.eq(7).all() and module.of_host() == 0
    monkeypatch.setenv("CPATH", str(tmp_path / "far"))
    found = compile_kernel("#include <wrong.cuh>\n", "wrong").trace[1, 64](torch.ones(64)).problems
    assert "writes x[64]" in str(found[0]) and "(line 2 of wrong.cuh: `x[threadIdx.x + 1] = 1;`)" in str(found[0])
    monkeypatch.delenv("CPATH")
    with pytest.raises(CompileError, match="bad.cuh, line 2: .*missing"):
        compile_kernel("#include <bad.cuh>\n", "bad", (f"-I{tmp_path}/far",))
