"""Every CUDA C++ text of the course: all of kernels/, and what the lessons build from strings, without running them."""

import ast
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from IPython.core.inputtransformer2 import TransformerManager

import kernels
from utils.cuda.common import cxx

__all__ = ["NOTEBOOKS", "Source", "Unreadable", "course", "texts"]

ROOT = Path(kernels.__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


class Unreadable(Exception):
    """A cell holds a kernel in a text that cannot be known without running the cell."""


@dataclass
class Source:
    """A CUDA text, where it stands, and the instances of its templates that a lesson asks `compile_kernel` for."""

    where: str  # 'kernels/square.cu', 'notebooks/03_grayscale_in_cuda.ipynb, lesson-03-011'
    text: str
    instances: list[str] = field(default_factory=list)  # 'matmul_tile<16>'

    @property
    def file(self):
        return self.where.split(", ")[0]


def course() -> list[Source]:
    """All of them, the shared sources first, then the lessons in order, without what a shared source contains."""
    shared = [Source(str(kernels.path(name).relative_to(ROOT)), kernels.source(name)) for name in kernels.names()]
    found = [*shared]
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text())["cells"]
        for source in texts(cells, str(path.relative_to(ROOT))):
            whole = [other for other in shared if source.text.strip() in other.text]
            if whole:
                whole[0].instances += source.instances
            else:
                found.append(source)
    return found


def texts(cells, file) -> list[Source]:
    """The CUDA texts of a notebook's cells and of the solutions that its prose shows, each as whole as it gets.

    Strings are put together as the cells would do it: `+`, f-strings, `replace` and the like, of constants, of names
    given before, and of the sources in `kernels`. A piece that another text contains is left out. So is what stands
    in a `try` that expects a CompileError, a text with a blank `___` that the learner fills, and what stands in a cell
    with the tag `does-not-compile` (which is also for a planted mistake that nvcc warns about).
    Raises Unreadable for a kernel in a text that depends on more.
    """
    reader = _Reader()
    for number, cell in enumerate(cells):
        if "does-not-compile" in cell.get("metadata", {}).get("tags", ()):
            continue
        where, code = f"{file}, {cell.get('id', number)}", "".join(cell["source"])
        parts = [code] if cell["cell_type"] == "code" else re.findall(r"^```python\n(.*?)^```", code, re.M | re.S)
        for part in parts:
            reader.read(where, part)
    whole = [text for text in reader.found if not any(text in other and text != other for other in reader.found)]
    for text, source in reader.found.items():
        if text not in whole:
            next(reader.found[other] for other in whole if text in other).instances += source.instances
    return [reader.found[text] for text in whole]


class _Reader(ast.NodeVisitor):
    """Walks through cells in order and keeps what their names stand for, as far as that is plain to see."""

    def __init__(self):
        self.known = {"kernels": kernels, "cuda_begin": kernels.cuda_begin}
        self.found = {}  # Source by text
        self.where = ""

    def read(self, where, code):
        self.where = where
        code = re.sub(r"\A\s*%%(time|timeit|capture)\b.*", "", code)  # what follows is Python
        self.visit(ast.parse(TransformerManager().transform_cell(code)))  # other magics become calls: %%cuda's a string

    def visit(self, node):
        if not isinstance(node, ast.expr):
            return super().visit(node)
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):  # a name that is assigned to
            return None
        value = self.value(node)
        if isinstance(value, str):
            self.keep(value)
        elif isinstance(node, ast.JoinedStr) and cxx.kernels("".join(_constants(node))):
            raise Unreadable(f"{self.where}: this text has a kernel and depends on what only a run knows")
        else:
            super().visit(node)

    def visit_Assign(self, node):
        self.visit(node.value)
        for target in node.targets:
            self.name(target, node.value)

    def visit_AugAssign(self, node):
        before = ast.Name(getattr(node.target, "id", ""), ast.Load())
        whole = ast.BinOp(before, node.op, node.value)
        self.visit(whole)
        self.name(node.target, whole)

    def visit_Try(self, node):
        handled = {n.id for handler in node.handlers for n in ast.walk(handler) if isinstance(n, ast.Name)}
        if "CompileError" not in handled:
            self.generic_visit(node)

    def visit_Call(self, node):
        self.generic_visit(node)
        text, name = ([*map(self.value, node.args), None, None])[:2]
        if isinstance(text, str) and cxx.kernels(text) and (cxx.instance(str(name)) or ("", ""))[1]:
            self.keep(text).instances.append(name)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "of" and isinstance(node.func.value, ast.Name):
            kernel, arguments = node.func.value.id, [self.value(argument) for argument in node.args]  # of a %%cuda cell
            for text, source in self.found.items():
                if kernel in cxx.kernels(text) and None not in arguments:
                    source.instances.append(f"{kernel}<{', '.join(map(str, arguments))}>")

    def name(self, target, expression):
        if isinstance(target, ast.Name):
            self.known[target.id] = self.value(expression)

    def keep(self, text):
        if cxx.kernels(text) and not re.search(r"\b___\b", text):  # a blank for the learner to fill
            return self.found.setdefault(text, Source(self.where, text))

    def value(self, node):
        """What an expression of strings and numbers gives; None where that cannot be told."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and self.known.get(part.id) is None:
                return None
            if isinstance(part, ast.Call) and not (isinstance(part.func, ast.Attribute) and part.func.attr in _CALLS):
                return None
            if not isinstance(part, _PLAIN):
                return None
        code = compile(ast.fix_missing_locations(ast.Expression(node)), self.where, "eval")
        try:
            value = eval(code, {"__builtins__": {}}, self.known)
        except Exception:  # the cell would raise it too
            return None
        return value if isinstance(value, (str, int, float)) else None


_CALLS = {"source", "host", "replace", "format", "join", "strip", "lstrip", "rstrip"}
_PLAIN = (ast.Constant, ast.Name, ast.Attribute, ast.Call, ast.BinOp, ast.JoinedStr, ast.FormattedValue, ast.keyword)
_PLAIN += (ast.operator, ast.expr_context, ast.List, ast.Tuple)


def _constants(node):
    return [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
