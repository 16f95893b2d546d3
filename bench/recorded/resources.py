"""Compiles every kernel of the course with nvcc and keeps what each needs:  python -m bench.recorded.resources

Writes resources.json: for each kernel and architecture the registers per thread, the bytes of static shared memory per
block, and the bytes of stack and of spilled registers per thread, as ptxas reports them. Needs nvcc and no GPU.
tests/nvcc/test_nvcc.py compiles the same way and fails for a spill that is not in the file.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import kernels
from tests.nvcc.sources import course
from utils.cuda.common import cxx, special_functions
from utils.cuda.common.targets import target
from utils.cuda.common.toolchain import cuda_home, nvcc_hint, nvcc_release
from utils.cuda.gpu.ptxas import usages
from utils.cuda.gpu.split import split

__all__ = ["ARCHITECTURES", "Compiled", "Needs", "compile_all", "missing", "new_spills", "read", "table", "write"]

ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90")  # T4, A100, L4 and RTX 40, H100
RESOURCES = Path(__file__).parent / "resources.json"


class Needs(NamedTuple):
    """What a kernel takes on an architecture; all but the registers in bytes."""

    file: str  # of the course
    kernel: str  # 'matmul_tile<16>'; another one of that name in the same file is 'matmul_tile<16> (2)'
    arch: str
    registers: int
    shared: int
    stack: int
    spill_stores: int
    spill_loads: int

    @property
    def key(self):
        return self.file, self.kernel, self.arch


class Compiled(NamedTuple):
    """The result for a source: nvcc's log where it refused (otherwise empty), and what its kernels need."""

    log: str
    needs: list[Needs]


def compile_all(sources, nvcc=None, together=1) -> list[Compiled]:
    """Compile sources, each for all architectures, with warnings as errors. The order is kept.

    Most of nvcc's time goes into CUDA's headers. So up to `together` texts of lessons that include nothing more are
    compiled at once, and one by one if nvcc says anything about them. Then static shared memory may take 8 bytes more.
    """
    nvcc, sources = nvcc or cuda_home() / "bin" / "nvcc", list(sources)
    groups = _groups(sources, together)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compiled = pool.map(lambda group: _compile([sources[k] for k in group], nvcc), groups)
        done = dict(zip(chain(*groups), chain(*compiled), strict=True))
    seen, numbered = Counter(), []
    for _, compiled in sorted(done.items()):
        for kernel in {(n.file, n.kernel) for n in compiled.needs}:
            seen[kernel] += 1
        numbers = {(n.file, n.kernel): seen[n.file, n.kernel] for n in compiled.needs}
        needs = [
            n._replace(kernel=f"{n.kernel} ({number})") if (number := numbers[n.file, n.kernel]) > 1 else n
            for n in compiled.needs
        ]
        numbered.append(compiled._replace(needs=needs))
    return numbered


_OF_TEXT = re.compile(r"\bcourse_text_(\d+)::")


def _groups(sources, together) -> list[list[int]]:
    """The indices of what is compiled together."""
    plain = [k for k, source in enumerate(sources) if _is_plain(source)]
    alone = [[k] for k in range(len(sources)) if k not in plain]
    return [*alone, *(plain[at : at + together] for at in range(0, len(plain), together))]


def _is_plain(source):
    """Whether a text of a lesson includes nothing but <cuda_runtime.h>."""
    if not source.file.endswith(".ipynb"):
        return False
    code = _device_code(source)
    more = re.search(r'^[ \t]*#[ \t]*include\b(?![ \t]*<cuda_runtime\.h>)|"C"', code, re.MULTILINE)
    return not more and _architectures(source.text) == ARCHITECTURES and bool(special_functions.left_out(code))


def _device_code(source):
    """Without what uses torch, as utils.load_cuda passes it to nvcc."""
    return split(source.text).device if cxx.uses_torch(source.text) else source.text


def _compile(sources, nvcc) -> list[Compiled]:
    """Compile the kernels of a group of sources: of several, each in a namespace of its own."""
    code, several = f"#include <cuda_runtime.h>\n#include <cstdint>\n{special_functions.ALSO}", len(sources) > 1
    for number, source in enumerate(sources):
        text = f'#line 1 "cuda_src"\n{_device_code(source)}\n'
        for i, instance in enumerate(source.instances):
            text += f"extern const void* const asked_for_{i} = (const void*)&{instance};\n"
        if several:
            text = f"namespace course_text_{number} {{\n{text}}}\n"
            text += "".join(f"#undef {name}\n" for name in cxx.macros(source.text))
        code += text
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cuda.cu").write_text(code)
        command = [nvcc, "-std=c++17", "-fatbin", "cuda.cu", "-o", "cuda.fatbin"]  # device code alone
        command += ["-Werror=all-warnings", "--resource-usage", "--threads=0", f"-I{kernels.folder}"]
        command += special_functions.left_out(code)
        command += [
            f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}" for arch in _architectures(sources[0].text)
        ]
        environment = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    log = done.stdout + done.stderr
    if several and done.returncode:
        return [_compile([source], nvcc)[0] for source in sources]
    return [Compiled(log, []) if done.returncode else Compiled("", needs) for needs in _needs(sources, log)]


def _architectures(text):
    """ARCHITECTURES, or the one that has all instructions of the text."""
    return ("sm_90a",) if target(90, text) == "90a" else ARCHITECTURES


def _needs(sources, log) -> list[list[Needs]]:
    """What ptxas reports about the kernels of each source."""
    reported = usages(log)
    names = _readable([symbol for symbol, _ in reported])
    needs = [[] for _ in sources]
    for (symbol, arch), usage in reported.items():
        number = int(_OF_TEXT.search(names[symbol])[1]) if len(sources) > 1 else 0
        needs[number].append(Needs(sources[number].file, _OF_TEXT.sub("", names[symbol]), arch, *usage))
    return [sorted(of_source) for of_source in needs]


def _readable(symbols) -> dict[str, str]:
    """C++ names as people write them: 'matmul_tile<16>'. c++filt comes with every compiler that nvcc works with."""
    tool = shutil.which("c++filt")
    if not tool or not symbols:
        return {symbol: symbol for symbol in symbols}
    shown = subprocess.run([tool, "-p", *symbols], capture_output=True, text=True).stdout.splitlines()
    return dict(zip(symbols, (re.sub(r"^void |\(\w+\)(?=\d)", "", name) for name in shown), strict=True))


def missing(source, compiled) -> list[str]:
    """The kernels of a source without code for one architecture or for all: templates without instances."""
    made = {(re.split(r"[< ]", n.kernel.split("::")[-1])[0], n.arch) for n in compiled.needs}
    return [
        name for name in cxx.kernels(source.text) if not {(name, arch) for arch in _architectures(source.text)} <= made
    ]


# ---- what was recorded ----------------------------------------------------------------------------------------------


def write(needs, release):
    """Keep what the kernels need, one line per kernel, and the nvcc that reported it."""
    lines = ",\n".join(json.dumps(n._asdict()) for n in needs)
    RESOURCES.write_text(f'{{"nvcc": "{release}", "needs": [\n{lines}\n]}}\n')


def read() -> tuple[str, dict]:
    """The nvcc of the recording, and the recorded Needs by their keys."""
    recorded = json.loads(RESOURCES.read_text())
    needs = [Needs(**entry) for entry in recorded["needs"]]
    return recorded["nvcc"], {n.key: n for n in needs}


def new_spills(needs, recorded) -> list[str]:
    """A sentence for each kernel that spills more than was recorded."""
    found = []
    for n in needs:
        before = recorded.get(n.key, n._replace(spill_stores=0, spill_loads=0))
        if n.spill_stores > before.spill_stores or n.spill_loads > before.spill_loads:
            found.append(
                f"{n.file}: {n.kernel} on {n.arch} spills {n.spill_stores} bytes and loads {n.spill_loads} back; "
                f"before, it was {before.spill_stores} and {before.spill_loads}. What is spilled waits in memory, not "
                "in a register: keep fewer values at once, or allow more registers (__launch_bounds__). If it is "
                "meant so, record it: python -m bench.recorded.resources"
            )
    return found


def table(needs, recorded, release="", recorded_release="") -> list[str]:
    """The lines of a table, one per kernel, with the recorded figure in brackets where it was different."""
    rows = [["", *ARCHITECTURES, "shared", "stack", "spilled"]]
    file = None
    by_kernel = {}
    for n in needs:
        by_kernel.setdefault((n.file, n.kernel), []).append(n)
    for (where, kernel), group in by_kernel.items():
        if where != file:
            file = where
            rows.append([file])
        before = [recorded.get(n.key) for n in group]
        registers = [_both(n.registers, b and b.registers) for n, b in zip(group, before, strict=True)]
        most = [
            _both(max(map(column, group)), max(map(column, before)) if all(before) else None)
            for column in (lambda n: n.shared, lambda n: n.stack, lambda n: n.spill_stores + n.spill_loads)
        ]
        rows.append([f"  {kernel}", *registers, *most])
    first, *widths = [max(map(len, column)) for column in zip(*(row for row in rows if len(row) > 1), strict=True)]
    lines = ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], widths)]).rstrip() for row in rows]
    words = "registers per thread by architecture; bytes of shared memory per block, of stack and of spills per thread"
    version = f"nvcc {release}" if release == recorded_release else f"nvcc {release} (recorded: {recorded_release})"
    return [f"{version}: {words}", *lines]


def _both(now, before):
    return str(now) if before is None or before == now else f"{now} ({before})"


def main():
    home = cuda_home()
    if home is None:
        sys.exit(f"there is no nvcc here: {nvcc_hint()}")
    sources = course()
    done = compile_all(sources)
    for source, compiled in zip(sources, done, strict=True):
        if compiled.log:
            sys.exit(f"{source.where} does not compile:\n{compiled.log}")
    needs = [n for compiled in done for n in compiled.needs]
    recorded_release, recorded = read() if RESOURCES.exists() else ("none", {})
    print(*table(needs, recorded, nvcc_release(home), recorded_release), sep="\n")
    write(needs, nvcc_release(home))


if __name__ == "__main__":
    main()
