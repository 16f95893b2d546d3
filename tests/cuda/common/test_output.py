"""What C, C++ and kernels print: shown with Python's own output, in order, in notebooks, under nbval, in programs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

import utils

ROOT = Path(utils.__file__).parents[1]

PRINTS = [
    """
import ctypes, sys
from utils import compile_kernel, device, load_cuda
from utils.cuda import session
session.begin()
c, with_lock = ctypes.CDLL(None), ctypes.PyDLL(None)
def wait():
    if device().type == "cuda":
        import torch
        torch.cuda.synchronize()
print("python 1"); _ = c.puts(b"C 1"); print("python 2"); _ = c.puts(b"C 2")""",
    """
kernel = compile_kernel('__global__ void hi(int n) { printf("kernel %d\\\\n", n + threadIdx.x); }', "hi")
module = load_cuda(
    '''#include <cstdio>
#include <iostream>
__global__ void hi(int n) { printf("extension %d\\\\n", n); }
void go(int64_t n) {
    printf("host 1\\\\n");
    hi<<<1, 1>>>(n);
    cudaDeviceSynchronize();
    std::cout << "host 2\\\\n";
}''', "void go(int64_t n);", ["go"])
print("before"); kernel[1, 2](10); wait(); print("between"); module.go(20); print("after")""",
    'print("no one waits"); kernel[1, 1](30)',  # on a GPU the end of the cell does
    'import subprocess; _ = subprocess.run(["echo", "child"]); print("parent")',
    # More than a pipe holds, by a function that keeps Python's lock as those of an extension do
    'for i in range(2000): _ = with_lock.puts(b"." * 99)\nprint("all")',
    '_ = c.dprintf(2, b"complaint\\n"); print("python", file=sys.stderr)',
    '_ = c.puts(b"then this"); print("ends")\n3',
]
SHOWN = [
    "python 1\nC 1\npython 2\nC 2\n",
    "before\nkernel 10\nkernel 11\nbetween\nhost 1\nextension 20\nhost 2\nafter\n",
    "no one waits\nkernel 30\n",
    "child\nparent\n",
    ("." * 99 + "\n") * 2000 + "all\n",
    "",
    "then this\nends\n",
]


def environment():
    """That of a learner: C buffers its output, and pytest, for which ipykernel does less, is nowhere about."""
    ours = ("PYTHONUNBUFFERED", "PYTEST_CURRENT_TEST")
    return {name: value for name, value in os.environ.items() if name not in ours} | {"PYTHONPATH": python_path()}


def python_path():
    """The course before whatever the tests themselves were started with."""
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def notebook(cells, client=NotebookClient, more=(), **options):
    """The notebook with these cells, run in Jupyter's kernel with `more` variables in its environment."""
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client(made, timeout=300, kernel_name="python3", **options).execute(env=environment() | dict(more))
    return made


def shown(cell, name="stdout"):
    return "".join(output.text for output in cell.outputs if output.get("name") == name)


def test_in_a_program_whose_output_goes_into_a_pipe():
    done = subprocess.run([sys.executable, "-c", "\n".join(PRINTS)], capture_output=True, text=True, env=environment())
    at_exit = "kernel 30\n" if utils.device().type == "cuda" else ""
    said = "".join(SHOWN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace("kernel 30\n", "") == said.replace("kernel 30\n", "")
    assert done.stdout.endswith(at_exit) and done.stdout.count("kernel 30\n") == 1
    assert "complaint\npython\n" in done.stderr


def test_in_a_notebook_and_again_under_nbval(tmp_path):
    made = notebook(PRINTS)
    assert [shown(cell) for cell in made.cells] == SHOWN
    assert shown(made.cells[5], "stderr") == "complaint\npython\n"
    assert made.cells[-1].outputs[-1].data["text/plain"] == "3"
    del made.cells[4]  # ipykernel cuts a long text into pieces by the clock, which nbval would compare
    nbformat.write(made, tmp_path / "prints.ipynb")
    nbval = [sys.executable, "-m", "pytest", "-q", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider"]
    done = subprocess.run([*nbval, tmp_path / "prints.ipynb"], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stdout
    wrong = json.loads((tmp_path / "prints.ipynb").read_text())
    wrong["cells"][0]["outputs"][0]["text"] = ["python 1\n", "python 2\n", "C 1\n", "C 2\n"]
    (tmp_path / "prints.ipynb").write_text(json.dumps(wrong))
    done = subprocess.run([*nbval, tmp_path / "prints.ipynb"], capture_output=True, text=True, env=environment())
    assert done.returncode and "1 failed" in done.stdout


def test_a_cell_that_fails_and_those_that_catch_output_themselves():
    start = "import ctypes, os, sys\nc = ctypes.CDLL(None)\nfrom utils.cuda import session\nsession.begin()"
    cells = [
        "%%capture first\n" + start,  # the set-up cell itself
        '_ = c.puts(b"before"); 1 / 0',
        '%%capture caught\nprint("python"); _ = c.puts(b"C")',
        "print(caught.stdout, end='')",
        'import wurlitzer\nwith wurlitzer.pipes() as (out, err):\n    _ = c.puts(b"inside")\nprint([out.read()])',
        'if os.fork() == 0:\n    _ = c.puts(b"C child"); print("child", flush=True); os._exit(0)\n'
        'os.wait(); print("parent")',
        "import threading\nprint(['(_watch)' in str(t) for t in threading.enumerate()].count(True))\n"
        "print('write' in vars(sys.stdout))",
    ]
    ran = notebook(cells, allow_errors=True).cells
    assert shown(ran[1]) == "before\n" and ran[1].outputs[-1].ename == "ZeroDivisionError"
    assert shown(ran[2]) == "C\n" and shown(ran[3]) == "python\n"
    assert shown(ran[4]) == "['inside\\n']\n"
    assert sorted(shown(ran[5]).splitlines()) == ["C child", "child", "parent"]
    assert shown(ran[6]) == "1\nTrue\n"


def test_output_comes_while_the_cell_still_runs(tmp_path):
    came = tmp_path / "came"
    cells = [
        "import ctypes, os, time\nc = ctypes.CDLL(None)\nfrom utils.cuda import session\nsession.begin()",
        '_ = c.puts(b"now"); late = time.monotonic() + 250\n'
        f"while not (seen := os.path.exists({str(came)!r})) and time.monotonic() < late:\n    time.sleep(0.01)",
        "print(seen)",
    ]

    class Client(NotebookClient):
        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] == "stream" and cell_index == 1:
                came.touch()
            return super().process_message(msg, cell, cell_index)

    assert shown(notebook(cells, Client).cells[2]) == "True\n"
