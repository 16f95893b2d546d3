"""Every exercise: the stub is not solved yet, the solution passes, wrong answers get the verdict that they should.

The solution is in the notebook, folded, and nowhere else. Other answers are in lesson_NN.py beside this file:

    RIGHT = {"02-guard": [(old, new), ...]}             the solution with `old` replaced by `new` is right, too
    WRONG = {"02-guard": [(verdict, old, new), ...]}    ... gets this verdict

Where `old` is "", `new` is the whole answer's code: what defines the name that the cell hands to check. A verdict is
one of KINDS, or the beginning of what is printed: "wrong: your function returned nothing".
"""

import ast
import contextlib
import importlib
import json
import linecache
import re
import sys
from pathlib import Path

import pytest
import torch

from utils import compile_kernel
from utils.cuda.cpu import module as engine
from utils.cuda.cpu.trace import run as trace_run
from utils.exercises import check, lessons
from utils.exercises.exercise import Kernel, once, poison
from utils.exercises.judging import judged
from utils.exercises.lessons import LESSONS, exercises_of
from utils.exercises.verdicts import KINDS, difference
from utils.lesson.simulator import blk_kernel, blk_kernel2d_shared, cdiv

ROOT = Path(lessons.__file__).parents[2]
FEWEST = {"exercises": 4, "wrong answers": 5, "right answers": 2}
_CHECK = re.compile(r'^check\("(\d\d-[\w-]+)", (.+)\)$', re.MULTILINE)
_FOLDED = re.compile(r"<details><summary>([^<]+)</summary>\n(.*?)</details>", re.DOTALL)


def cells_of(lesson):
    return [
        cell
        for path in (ROOT / "notebooks").glob(f"{lesson}_*.ipynb")
        for cell in json.loads(path.read_text())["cells"]
    ]


def source(cell):
    return "".join(cell["source"])


class Found:
    """An exercise in a notebook: its stub, the cells that belong to it, hints and solution."""

    def __init__(self, lesson, cells, at):
        self.stub = source(cells[at])
        self.name, self.answer = _CHECK.search(self.stub).groups()
        self.output = "".join("".join(output.get("text", "?")) for output in cells[at]["outputs"])
        begins = max(i for i in range(at + 1) if re.search(r"^##+ ", source(cells[i]), re.MULTILINE))
        self.given = [source(cell) for cell in cells[begins:at] if cell["cell_type"] == "code"]
        self.given = [text for text in self.given if not (_CHECK.search(text) or text.startswith("%%cuda"))]
        self.imports = next(
            source(cell) for cell in cells if "from utils." in source(cell) and "REPO" not in source(cell)
        )
        folded = next(source(cell) for cell in cells[at:] if "<details>" in source(cell)).split("\n### ")[0]
        self.folded = [title for title, _ in _FOLDED.findall(folded)]
        texts = [text for title, text in _FOLDED.findall(folded) if title == "Solution"]
        self.solution = "\n".join(re.findall(r"```python\n(.*?)```", "".join(texts), re.DOTALL))
        self.asked = next(source(cell) for cell in reversed(cells[:at]) if cell["cell_type"] == "markdown")

    def answered(self, code):
        """The answer that is passed to check when `code` runs after what the notebook gives."""
        namespace = dict(_run(self.imports))
        for text in self.given:
            namespace |= _run(text)
        exec(_with_source(code) if "triton.jit" in code else code, namespace)
        return eval(self.answer, namespace)


def _with_source(code):
    """The code compiled so that Python finds its text, as Triton's decorator wants it and as Jupyter does it."""
    name = f"<answer {len(linecache.cache)}>"
    linecache.cache[name] = len(code), None, code.splitlines(keepends=True), name
    return compile(code, name, "exec")


def _run(text):
    """The names that a cell imports, defines or sets to a text; what it computes is left out."""
    names, tree = {}, ast.parse(text)
    keep = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    texts = [node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)]
    tree.body = [node for node in tree.body if isinstance(node, keep) or node in texts]
    exec(compile(tree, "a cell", "exec"), names)
    return names


def found_in(lesson):
    cells = cells_of(lesson)
    ats = [i for i, cell in enumerate(cells) if cell["cell_type"] == "code" and _CHECK.search(source(cell))]
    return [Found(lesson, cells, i) for i in ats]


ALL = [found for lesson in LESSONS for found in found_in(lesson)]
WRONG, RIGHT = {}, {}
for _lesson in LESSONS:
    if (Path(__file__).parent / f"lesson_{_lesson}.py").exists():
        _answers = importlib.import_module(f"tests.exercises.lesson_{_lesson}")
        WRONG |= _answers.WRONG
        RIGHT |= getattr(_answers, "RIGHT", {})


def answers(listed):
    """A parameter for each of them, named after its exercise and the first line that is not the solution's."""
    return [
        pytest.param(found, *answer, id=f"{found.name}: {(answer[-1].strip() or 'nothing').splitlines()[0]}")
        for found in ALL
        for answer in listed.get(found.name, ())
    ]


each_exercise = pytest.mark.parametrize("found", ALL, ids=lambda found: found.name)


@pytest.fixture
def said(capsys):
    """What check prints of an answer."""

    def say(name, answer):
        capsys.readouterr()
        assert check(name, answer) is None
        return capsys.readouterr().out

    return say


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_asks_what_its_set_has(lesson):
    names = [found.name for found in found_in(lesson)]
    assert names == [exercise.name for exercise in exercises_of(lesson)]
    assert len(names) >= (1 if lesson == "00" else 3) and all(name.startswith(f"{lesson}-") for name in names)
    assert f'progress_line("{lesson}")' in [source(cell) for cell in cells_of(lesson)]


@each_exercise
def test_it_has_a_specification_hints_and_one_solution(found):
    assert "**Asked:**" in found.asked
    assert found.folded[-1] == "Solution" and found.folded.count("Solution") == 1
    assert found.folded[0].startswith("Hint") and found.solution


@each_exercise
def test_the_stub_is_not_solved_yet(found, said):
    lines = _CHECK.sub("", found.stub)
    assert said(found.name, found.answered(lines)) == "not yet\n" == found.output


@each_exercise
def test_the_solution_is_right(found, said):
    assert said(found.name, found.answered(found.solution)) == "right\n"


@each_exercise
def test_there_are_wrong_answers(found):
    assert len(WRONG.get(found.name, ())) >= 3


@pytest.mark.parametrize("lesson", [lesson for lesson in LESSONS if lesson != "00"])
def test_there_are_enough_exercises_and_answers(lesson):
    lacking, exercises = [], exercises_of(lesson)
    if len(exercises) < FEWEST["exercises"]:
        lacking.append(f"it has {len(exercises)} exercises of {FEWEST['exercises']}")
    if lesson >= "02" and not any(isinstance(exercise, Kernel) for exercise in exercises):
        lacking.append("no exercise asks for a kernel")
    for what, listed in (("wrong answers", WRONG), ("right answers", RIGHT)):
        for exercise in exercises:
            count = len(set(listed.get(exercise.name, ())))
            if count < FEWEST[what]:
                lacking.append(f"{exercise.name} has {count} {what} of {FEWEST[what]}")
    assert lacking == []


@pytest.mark.parametrize("name", {**WRONG, **RIGHT})
def test_other_answers_are_to_exercises_that_there_are(name):
    assert name in [found.name for found in ALL]


def changed(solution, old, new):
    """The solution with `new` in the place of `old`, which must be there; with no `old`, `new` alone."""
    assert old in solution, f"the solution has no {old!r}"
    return solution.replace(old, new) if old else new


@pytest.fixture(scope="module")
def judged_together(tmp_path_factory):
    """A context in which traces are built without nvcc's verdict. At the end, nvcc judges all their texts together,
    which is far quicker than one by one."""
    judges = {}

    def module(*args, judge=None, **options):
        if judge:
            judges.setdefault((judge.flags, judge.architecture), {})[judge.text, judge.names] = judge
        return engine.module(*args, **options)

    @contextlib.contextmanager
    def unjudged():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trace_run, "module", module)
            yield

    yield unjudged
    for alike in judges.values():
        each, text = list(alike.values()), in_one_text(alike)
        together = each[0]._replace(source=text, text=text, names=())
        log = together.beside(lambda: "", tmp_path_factory.mktemp("judged"), print)
        assert not log, log


def in_one_text(texts):
    """CUDA sources as one, each in a namespace of its own, with the instances of templates that are to be compiled."""
    includes, parts = {}, []
    for number, (text, names) in enumerate(texts):
        lines = text.splitlines()
        includes |= dict.fromkeys(line for line in lines if line.lstrip().startswith("#include"))
        lines = ["" if line.lstrip().startswith("#include") else line for line in lines]
        used = [
            f"static void* const used_{k} __attribute__((used)) = (void*)&{n};" for k, n in enumerate(names) if "<" in n
        ]
        ends = [f"#undef {name}" for name in re.findall(r"^\s*#define\s+(\w+)", text, re.MULTILINE)]
        parts += [f"namespace answer_{number} {{", '#line 1 "cuda_src"', *lines, *used, "}", *ends]
    return "\n".join([*includes, *parts, ""])


@pytest.mark.parametrize("found, old, new", answers(RIGHT))
def test_another_right_answer_is_right(found, old, new, said, judged_together):
    with judged_together():
        text = said(found.name, found.answered(changed(found.solution, old, new)))
    assert text == "right\n" or text.startswith("right: yours makes ")


@pytest.mark.parametrize("found, verdict, old, new", answers(WRONG))
def test_a_wrong_answer_gets_its_verdict(found, verdict, old, new, said, judged_together):
    with contextlib.nullcontext() if verdict.startswith("does not compile") else judged_together():
        text = said(found.name, found.answered(changed(found.solution, old, new)))
    begins = verdict if ":" in verdict else "not yet\n" if verdict == "not yet" else f"{verdict}:"
    assert text.startswith(begins), text
    assert verdict.split(":")[0] in KINDS and verdict != "right" and len(text) < 2000 and str(ROOT) not in text


# ---------------------------------------------------------------- check itself, on a small exercise


DOUBLED = {
    "sizes": [{"n": n} for n in (1, 17, 70)],
    "arguments": lambda n: {"x": torch.randint(-50, 50, (n,)), "out": poison(n, dtype=torch.int64), "n": n},
    "outputs": ("out",),
    "launch": lambda n: (cdiv(n, 32), 32),
    "expected": lambda x, out, n: 2 * x,
}
IN_PYTHON = Kernel("99-double", run=blk_kernel, **DOUBLED)
IN_CUDA = Kernel("99-double", cuda="doubled", **DOUBLED)


def verdict_on(exercise, answer):
    return str(judged(exercise, answer))


def kernel(body):
    """A Python kernel of these lines, in which i is the number of the thread."""
    lines = "".join(f"    {line}\n" for line in ["i = blockidx * blockdim + threadidx", *body.splitlines()])
    names = {}
    exec(f"def doubled(blockidx, threadidx, blockdim, x, out, n):\n{lines}", names)
    return names["doubled"]


SAID = {
    "if i < n: out[i] = 2 * x[i]": "right",
    "pass": "not yet: no thread has read or written anything",
    "if i < n: out[i] = 2 * ___": "not yet",
    "out[i] = 2 * x[i]": "out of bounds: thread 1 of block 0 reads x[1] in line 3, but x has 1 element (n = 1)",
    "if i < n: out[i - n] = 2 * x[i]": "out of bounds: thread 0 of block 0 writes out[-1] in line 3, but the first "
    "element is out[0]; Python counts such an index from the end, CUDA does not (n = 1)",
    "out[0] = 2 * x[0]": "raced: thread 0 of block 0 and thread 1 of block 0 both write out[0] in line 3, in no "
    "guaranteed order (n = 1)",
    "if i < 1: out[0] = 1\nelse: out[0] = 2": "raced: thread 0 of block 0 writes out[0] in line 3, and thread 1 of "
    "block 0 writes it in line 4, in no guaranteed order (n = 1)",
    "if i < n: out[i] = 2 * x[i] + (out[i - 1] * 0 if i else 0)": "raced: thread 1 of block 0 reads out[0] in "
    "line 3, which thread 0 of block 0 writes in line 3, in no guaranteed order (n = 17)",
    "if i < n: out[i] += 2 * x[i]": "uninitialized: thread 0 of block 0 reads out[0] in line 3, which no thread has "
    "written yet (n = 1)",
    "if i < n - 1: out[i] = 2 * x[i]": "unwritten: out[0] was never written (n = 1)",
    "if i < min(n, 10): out[i] = 2 * x[i]": "unwritten: out[10] was never written, the first of 7 such elements of 17",
    "if threadidx < n: out[threadidx] = 2 * x[threadidx]": "raced: thread 0 of block 0 and thread 0 of block 1 both "
    "write out[0] in line 3, in no guaranteed order: does the index depend on blockidx? (n = 70)",
    "if i < n: out[i] = 2 * x[i, 0]": "crashed: IndexError: x has 1 dimension here, but got 2 indexes",
    "if i < n: out[i] = 5 * x[0]": "wrong: out[0] should be",
    "if i < n: out[i] = x[i].no_such": "crashed: AttributeError: 'Tensor' object has no attribute 'no_such'",
    "if i < n: out[:n] = 2 * x[i]": "crashed: TypeError: a thread writes one element at a time, but out[...] here is "
    "several",
    "while True: pass": "too long: the threads have run 1,000,000 instructions between them, the last by thread 0 of "
    "block 0 in line 3: does every loop end? (n = 1)",
    "raise SystemExit": "crashed: SystemExit",
    "return missing": "crashed: NameError: name 'missing' is not defined",
}


@pytest.mark.parametrize("body", SAID, ids=lambda body: body)
def test_what_is_said_of_a_kernel_in_python(body):
    text = verdict_on(IN_PYTHON, kernel(body))
    assert text.startswith(SAID[body]) and (SAID[body] not in ("right", "not yet") or text == SAID[body])


def test_how_many_elements_are_wrong():
    for wrong, said in (
        ("n > 16", ", all 17 differ (n = 17)"),
        ("n > 16 and i < 3", ", the first of 3 wrong values out of 17 (n = 17)"),
        ("n > 16 and i < 1", ", the only wrong one out of 17 (n = 17)"),
    ):
        assert verdict_on(IN_PYTHON, kernel(f"if i < n: out[i] = 2 * x[i] + ({wrong})")).endswith(said)


def test_order_is_noticed_where_the_memory_does_not_show_it():
    """A counter outside the kernel's memory, as nothing in CUDA would be."""
    answer = kernel("if i < n:\n    out[i] = 2 * x[i] + (taken[-1] > i)\n    taken.append(i)")
    answer.__globals__["taken"] = [-1]
    assert verdict_on(IN_PYTHON, answer).startswith("raced: with the threads in reverse order the result is different")


CUDA = (
    "__global__ void doubled(const long long* x, long long* out, int n) { int i = blockIdx.x * 32 + threadIdx.x; %s }"
)
SAID_OF_CUDA = {
    "if (i < n) out[i] = 2 * x[i];": "right",
    "": "not yet: no thread has read or written anything",
    "___": "not yet",
    "if (i <= n) out[i] = 2 * x[i];": "out of bounds: thread (1,0,0) of block (0,0,0) reads x[1], but x has 1 element",
    "if (i < n) out[0] = 2 * x[0];": "raced: ",
    "if (i < n - 1) out[i] = 2 * x[i];": "unwritten: out[0] was never written",
    "if (i < n) out[i] = 3 * x[i];": "wrong: out[",
    "if (i < n) for (int k = 0; k < n; k += 0) out[i] = x[k];": "too long: thread (0,0,0) of block (0,0,0) has run ",
    "if (i < n) out[i] = 2 * y[i];": "does not compile: cuda_src, line 1: ",
}


def test_a_text_that_does_not_compile_gets_its_hint():
    text = verdict_on(IN_CUDA, CUDA % "if (i < n) out[i] = 2 * x[i]")
    assert text.startswith('does not compile: cuda_src, line 1: expected a ";"')
    assert text.endswith("\n    Put a `;` before the `}`.")


def test_a_kernel_that_does_nothing_at_all_is_a_stub():
    assert verdict_on(
        IN_CUDA, "__global__ void doubled(const long long* x, long long* out, int n) { /* yours */ }"
    ) == (verdict_on(IN_PYTHON, lambda blockidx, threadidx, blockdim, x, out, n: None))


@pytest.mark.parametrize("body", SAID_OF_CUDA, ids=lambda body: body or "nothing")
def test_what_is_said_of_a_kernel_in_cuda(body):
    text = verdict_on(IN_CUDA, CUDA % body)
    assert text.startswith(SAID_OF_CUDA[body]) and (
        SAID_OF_CUDA[body] not in ("right", "not yet") or text == SAID_OF_CUDA[body]
    )
    assert "max_steps" not in text and "build.log" not in text, "nothing that a learner cannot use here"


def test_the_worst_is_printed():
    """Unwritten for the small sizes, out of bounds for a large one."""
    body = "if (i + 1 < n) out[i] = 2 * x[i]; if (i == 60) out[i] = x[i + 100];"
    assert verdict_on(IN_CUDA, CUDA % body).startswith("out of bounds: thread (28,0,0) of block (1,0,0) reads x[160]")


@pytest.mark.parametrize(
    "exercise, answer, takes", [(IN_PYTHON, "text", "a Python function"), (IN_CUDA, 5, "CUDA C++ as text, or a kernel")]
)
def test_an_answer_of_the_wrong_kind(exercise, answer, takes):
    assert f"takes {takes}" in verdict_on(exercise, answer)


def test_a_kernel_that_a_cell_has_made_is_an_answer():
    compiled = compile_kernel(CUDA % "if (i < n) out[i] = 2 * x[i];", "doubled")
    assert verdict_on(IN_CUDA, compiled) == "right"


def test_traffic_is_compared_for_both_languages():
    """Every thread 8 elements beside its neighbour: as many requests, more sectors."""
    needed = {"traffic": lambda n: once(torch.empty(2 * n, dtype=torch.int64))}
    sizes = DOUBLED | {"sizes": [{"n": 256}], "launch": lambda n: (cdiv(n, 256), 256)} | needed
    in_python = Kernel("99-double", run=blk_kernel, **sizes)
    in_cuda = Kernel("99-double", cuda="doubled", **sizes)
    mixed = kernel("i = i % 32 * 8 + i // 32\nout[i] = 2 * x[i]")
    said = "right, but slow: yours makes 16 requests and 512 sectors, a good one 16 requests and 128 sectors (n = 256"
    assert verdict_on(in_python, mixed).startswith(said)
    mixed = CUDA % "out[i] = 2 * x[i];"
    mixed = mixed.replace("blockIdx.x * 32 + threadIdx.x", "threadIdx.x % 32 * 8 + threadIdx.x / 32")
    assert verdict_on(in_cuda, mixed).startswith(said)
    assert verdict_on(in_python, kernel("out[i] = 2 * x[i]")) == "right"


def test_reads_that_nvcc_removes_are_no_reason_to_be_slow():
    """Four reads of an element in the source, one in the machine code; of volatile memory, four."""
    needed = {"traffic": lambda n: once(torch.empty(2 * n, dtype=torch.int64))}
    exercise = Kernel("99-double", cuda="doubled", **DOUBLED, **needed)
    again = CUDA % "if (i < n) { long long s = 0; for (int u = 0; u < 4; ++u) s += x[i] * (u - 1); out[i] = s; }"
    right, why = verdict_on(exercise, again).split("\n", 1)
    assert right.startswith("right: yours makes ")
    assert why.strip().startswith(
        "The source reads more, and nvcc removes or merges it: of 4 loads from global memory 1"
    )
    again = again.replace("const long long* x", "const volatile long long* x")
    assert "volatile" in again and verdict_on(exercise, again).startswith("right, but slow: yours makes ")


def test_a_barrier_puts_threads_in_order():
    """Each thread reads what its neighbour has put into shared memory."""
    exercise = Kernel(
        "99-turn",
        sizes=[{"n": 8}, {"n": 16}],
        arguments=lambda n: {"x": torch.rand(n), "out": poison(n)},
        outputs=("out",),
        launch=lambda n: (n // 8, 8, 8),
        expected=lambda x, out: x.view(-1, 8).roll(-1, 1).flatten(),
        run=blk_kernel2d_shared,
    )

    def turned(blockidx, threadidx, blockdim, syncthreads, shared, x, out, wait=True):
        t, first = threadidx.x, blockidx.x * blockdim.x
        shared[t] = x[first + t]
        if wait:
            syncthreads()
        out[first + t] = shared[(t + 1) % 8]

    def hurried(*args):
        turned(*args, wait=False)

    def summed(blockidx, threadidx, blockdim, syncthreads, shared, x, out):
        shared[threadidx.x] = x[threadidx.x]
        syncthreads()
        for step in (4, 2, 1):
            if threadidx.x < step:
                shared[threadidx.x] += shared[threadidx.x + step]

    def split(blockidx, threadidx, blockdim, syncthreads, shared, x, out):
        if threadidx.x < 4:
            return
        syncthreads()

    assert verdict_on(exercise, turned) == "right"
    reads, writes = (
        re.escape(f"(`{line}`)") for line in ("out[first + t] = shared[(t + 1) % 8]", "shared[t] = x[first + t]")
    )
    said = rf"raced: .* reads shared\[\d\] in line \d+ {reads}, which .* writes in line \d+ {writes}, in no "
    assert re.match(f"{said}guaranteed order: is a `syncthreads\\(\\)` missing", verdict_on(exercise, hurried))
    assert "missing between the two, or between rounds of a loop?" in verdict_on(exercise, summed)
    assert "has left the kernel, while" in verdict_on(exercise, split)


def test_an_access_outside_is_reported_without_the_name_of_a_class(said):
    """Where the answer runs in Triton's interpreter, and where it catches the error itself."""
    (found,) = [found for found in ALL if found.name == "16-mask"]
    text = said("16-mask", found.answered(found.solution.replace("v, mask=i < n", "v")))
    assert re.fullmatch(r"out of bounds: program 0 writes out\[-1\], but out has 1 element, line \d+\n", text), text
    body = "try: out[i + n] = x[i]\nexcept IndexError: pass"
    assert verdict_on(IN_PYTHON, kernel(body)).startswith(
        "out of bounds: thread 0 of block 0 writes out[1] in line 3, but out has"
    )


def test_an_unknown_name_gets_the_nearest_one(said):
    assert said("02-gard", None).startswith("There is no exercise '02-gard'. Did you mean '02-guard'? (Lesson 02 has ")
    assert "the lessons with exercises are 00, 01, 02" in said("99-x", None).lower()
    assert said(5, None).startswith("There is no exercise 5.")


def test_the_learners_random_numbers_and_debugger_stay(said):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    before = sys.gettrace()
    said("02-mirror", lambda *args: None)
    assert torch.equal(torch.rand(2), expected) and sys.gettrace() is before


def test_a_wrong_element_is_shown_with_what_it_is_computed_from():
    inputs = {"x": torch.tensor([[5, 6], [7, 8]]), "n": 4, "row": torch.tensor([1, 2])}
    wrong = difference(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1, 2], [9, 4]]), "out", {}, inputs)
    assert wrong == "out[1, 0] should be 9 (x[1, 0] is 7), but yours is 3, the only wrong one out of 4"
