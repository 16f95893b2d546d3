"""What a lesson shows is what the course ships: kernels and helpers in a cell equal those in a module."""

import ast
import json
import re
from pathlib import Path

import pytest

import kernels
import utils.lesson.plots
import utils.lesson.simulator

NOTEBOOKS = sorted((Path(kernels.__file__).parents[1] / "notebooks").glob("*.ipynb"))
_KERNEL = re.compile(
    r"^(?:template *<[^\n]*> *\n?)?__global__[^{;]*?\b(?!__)(\w+)\([^{;]*\) \{\n.*?^\}", re.MULTILINE | re.DOTALL
)


def code_cells(path):
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def printed(path):
    """What cells print: a lesson may show a long kernel so."""
    cells = json.loads(path.read_text())["cells"]
    return ["".join(output.get("text", "")) for cell in cells for output in cell.get("outputs", ())]


def global_functions(text):
    return {found[1]: found[0] for found in _KERNEL.finditer(text)}


# Lesson 07 makes the one from the kernel with static tiles; lesson 09 names the other, which is long.
NOT_WRITTEN_OUT = {"matmul_template_kernel", "transpose_any_kernel"}


def test_the_kernels_of_the_lessons_are_those_of_the_course():
    shipped = {}
    for name in kernels.names():
        shipped |= global_functions(kernels.source(name))
    assert {"square_kernel", "rgb_to_grayscale_kernel", "rgb_to_grayscale_2d_kernel", "matmul_kernel"} <= set(shipped)
    shown, texts = set(), [path.read_text() for path in NOTEBOOKS]
    for path in NOTEBOOKS:
        for cell in code_cells(path) + printed(path):
            for name, text in global_functions(cell).items():
                if name in shipped:
                    assert text == shipped[name], f"{path.name}: {name} is not what kernels/ has"
                    shown.add(name)
    assert all(any(name in text for text in texts) for name in NOT_WRITTEN_OUT)
    assert shown | NOT_WRITTEN_OUT == set(shipped), "every kernel of the course is taught in a lesson"


def behaviour(function):
    """A function's code without its docstring, its type hints and its checks: what a lesson writes out."""
    function.returns = None
    for arg in [*function.args.args, function.args.vararg, function.args.kwarg]:
        if arg:
            arg.annotation = None
    return ast.unparse(function)


@pytest.mark.parametrize("name", ["cdiv"])
def test_helpers_written_out_in_a_lesson_are_those_that_later_lessons_import(name):
    module = ast.parse(Path(utils.lesson.simulator.__file__).read_text())
    (ours,) = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == name]
    ours.body = [n for n in ours.body if not isinstance(n, ast.Expr)]
    found = []
    for path in NOTEBOOKS:
        for cell in code_cells(path):
            if f"def {name}(" in cell:
                tree = ast.parse(cell)
                found += [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    assert found, f"no lesson writes {name} out"
    for theirs in found:
        assert behaviour(theirs) == behaviour(ours)


@pytest.mark.parametrize("name", ["run_kernel", "blk_kernel", "blk_kernel2d"])
def test_a_simulator_written_out_in_a_lesson_runs_the_same_threads_in_the_same_order(name):
    written = [
        cell for path in NOTEBOOKS for cell in code_cells(path) if re.search(rf"^def {name}\(", cell, re.MULTILINE)
    ]
    assert len(written) == 1, f"{name} is written out once, where it is taught, and imported from then on"
    namespace = {"dim3": utils.lesson.simulator.dim3}
    exec(re.search(rf"^def {name}\(.*?(?=^\S|\Z)", written[0], re.MULTILINE | re.DOTALL)[0], namespace)
    launch = (7,) if name == "run_kernel" else (3, 5)
    if name == "blk_kernel2d":
        launch = (utils.lesson.simulator.dim3(3, 2), utils.lesson.simulator.dim3(2, 3))
    seen = []
    for function in (namespace[name], getattr(utils.lesson.simulator, name)):
        calls = []
        function(lambda *args, calls=calls: calls.append(args), *launch, "argument")
        seen.append([[(a.x, a.y) if hasattr(a, "x") else a for a in call] for call in calls])
    assert seen[0] == seen[1] and len(seen[0]) > 6
