"""`%%cuda`: a cell of CUDA C++ whose kernels can be launched from the notebook. The set-up cell
loads it: `%load_ext utils.cuda.magic`."""

import re
import shlex
from difflib import get_close_matches

from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.display import display

__all__ = ["CudaMagics", "Template", "load_ipython_extension"]

# NVRTC's options that are useful to a learner, each with the pattern it must match.
_OPTIONS = {
    "-DNAME or -DNAME=VALUE": r"-D\w+(=.*)?",
    "-UNAME": r"-U\w+",
    "-IFOLDER": r"-I.+",
    "--use_fast_math": r"--use_fast_math",
    "--fmad=false": r"--fmad=(true|false)",
    "--maxrregcount=N": r"--maxrregcount=\d+",
    "--gpu-architecture=sm_90": r"--gpu-architecture=(sm|compute)_\w+",
    "--std=c++20": r"--std=c\+\+\d+",
    "-lineinfo": r"-lineinfo",
    "--resources or --resources=T4": r"--resources(=\w+)?",
    "--verbose": r"--verbose",
}
# What compilers say about a name that is not declared: g++; clang++; NVRTC.
_UNDECLARED = re.compile(r"was not declared|undeclared identifier|is undefined")


@magics_class
class CudaMagics(Magics):
    """The magic `%%cuda`."""

    @cell_magic
    def cuda(self, line, cell):
        """Compile the cell, CUDA C++ text, and make every `__global__` function in it a kernel of the notebook.

            %%cuda --use_fast_math -DFACTOR=2
            __global__ void scale(const float* x, float* out, int n) { ... }

        Then `scale[blocks, threads](x, out, n)` launches it and `scale.trace[blocks, threads](x, out, n)` explains what
        it does, as with `compile_kernel`. A template gives instances: `tiled.of(16)[blocks, threads](...)`. When the
        cell is changed and run again, the names refer to the new kernels. The cell may contain host code under
        `#ifndef __CUDACC_RTC__`; it is left out.

        The line takes NVRTC's options (those for macros and folders apply on the CPU as well), `--resources`, which
        shows what each kernel takes on a GPU (registers, shared memory, occupancy; `--resources T4` chooses it), and
        `--verbose`, which prints the commands. `{}` holds Python: `-DTILE={tile}`. `%%cuda` must be the first line of
        its cell.
        """
        from utils.ground.errors import CourseError

        try:
            options, asked = _options(line)
            made, left_out = _kernels(f"// %%cuda\n{cell}", options, verbose="--verbose" in asked)
            measured = made.values() if "--resources" in asked else ()
            tables = [kernel.resources(asked["--resources"]) for kernel in measured if not isinstance(kernel, Template)]
        except (CourseError, ValueError, KeyboardInterrupt) as error:
            # Between the learner's cell and the compiler are only IPython's frames and ours: the message is what helps.
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            text += self._still_there(cell)
            error._render_traceback_ = text.splitlines
            raise
        self.shell.push(made)
        shown = [f"{name}<...>" if isinstance(kernel, Template) else name for name, kernel in made.items()]
        print("kernels:", ", ".join(shown) + (f" (left out by the source: {', '.join(left_out)})" if left_out else ""))
        for table in tables:
            display(table)
        for template in (kernel for kernel in measured if isinstance(kernel, Template)):
            print(f"{template!r}, so its resources are those of an instance: `.of(...).resources()`")

    def _still_there(self, cell):
        """A sentence about the kernels that a cell has made before, if it fails now."""
        from utils.cuda.common import cxx
        from utils.cuda.kernel import Kernel

        names = dict.fromkeys(function.name for function in cxx.functions(cell))
        kept = [name for name in names if isinstance(self.shell.user_ns.get(name), (Kernel, Template))]
        still = "are still the kernels" if len(kept) > 1 else "is still the kernel"
        return f"\n{', '.join(kept)} {still} that compiled before." if kept else ""


class Template:
    """A template kernel of a cell. `.of(16)`, `.of('float', 16)` gives the kernel with these arguments."""

    def __init__(self, source, kernel, options):
        self._source, self._kernel, self._options = source, kernel, options

    def __repr__(self):
        return f"<{self._kernel.template} kernel {self._kernel.name}: {self._example()} is one of its kernels>"

    def of(self, *arguments):
        """The kernel with these template arguments, a `utils.cuda.kernel.Kernel`: compiled now or earlier.

        Pass numbers, True and False as they are; types and everything else as text, as in C++.
        """
        __tracebackhide__ = True
        from utils.cuda.kernel import compile_kernel

        if not arguments:
            raise TypeError(f"{self._kernel.name}.of() takes the template's arguments, as in {self._example()}")
        words = [str(a).lower() if isinstance(a, bool) else str(a) for a in arguments]
        return compile_kernel(self._source, f"{self._kernel.name}<{', '.join(words)}>", self._options)

    def __getitem__(self, launch):
        __tracebackhide__ = True
        raise self._no_kernel("[blocks, threads](...)")

    def __call__(self, *arguments):
        __tracebackhide__ = True
        raise self._no_kernel("[blocks, threads](...)")

    @property
    def trace(self):
        """There is no trace until an instance is chosen: `.of(16).trace`."""
        __tracebackhide__ = True
        raise self._no_kernel(".trace[blocks, threads](...)")

    def _no_kernel(self, launch):
        name, template = self._kernel.name, self._kernel.template
        return TypeError(f"{name} is a template ({template}): choose its arguments, as in {self._example()}{launch}")

    def _example(self):
        """An example of choosing an instance: `tiled.of(16, 'float')`. Arguments with a default are left out."""
        from utils.cuda.common import cxx

        inside = cxx.tokens(self._kernel.template)[2:-1]  # template <...>
        parameters = [[token.text for token in parameter] for parameter in cxx.at_commas(inside)]
        asked = [words for words in parameters if "=" not in words]
        shown = ["'float'" if words[0] in ("class", "typename") else str("bool" in words or 16) for words in asked]
        return f"{self._kernel.name}.of({', '.join(shown)})"


def _options(line):
    """The options of the magic's line that are the compiler's, and the values of its own: {'--resources': 'T4'}.

    Raises ValueError for an unknown one.
    """
    line_of_words = re.sub(r"(?<!\S)--resources\s+(?=\w)", "--resources=", re.sub(r"(?<!\S)-([DUI])\s+", r"-\1", line))
    try:
        words = shlex.split(line_of_words)
    except ValueError as error:
        raise ValueError(f"%%cuda {line}: {error}") from None
    for word in words:
        if not any(re.fullmatch(form, word) for form in _OPTIONS.values()):
            raise ValueError(f"%%cuda has no option {word!r}. It takes: {', '.join(_OPTIONS)}")
    own = dict(_own(word) for word in words if _own(word))
    return [word for word in words if not _own(word)], own


def _own(word):
    """An option that no compiler sees, and its value or None; None for any other."""
    name, _, value = word.partition("=")
    return (name, value or None) if name in ("--resources", "--verbose") else None


def _kernels(source, options, verbose):
    """Every kernel of the source by name (a Template if it is one), and the names that the compiler did not see."""
    from utils.cuda.common import cxx
    from utils.cuda.common.diagnostics import CompileError
    from utils.cuda.kernel import compile_kernels

    there = cxx.kernels(source)
    names = [name for name, kernel in there.items() if not kernel.template]
    templates = {name: Template(source, kernel, options) for name, kernel in there.items() if kernel.template}
    left_out = []
    while names or templates:
        try:
            if names:
                made = compile_kernels(source, names, options, verbose)
            else:  # a template is compiled when an instance is requested, but errors should show now
                made = []
                compile_kernels(f"{source}\n\n\n__global__ void no_template() {{}}", ["no_template"], options, verbose)
            found = dict(zip(names, made, strict=True)) | templates
            return {name: found[name] for name in there if name in found}, left_out
        except CompileError as error:
            hidden = _hidden(error, names)
            if not hidden:
                raise
            left_out += hidden
            names = [name for name in names if name not in hidden]
    if left_out:
        raise ValueError(f"an #if or a namespace hides every kernel of the cell: {', '.join(left_out)}")
    raise ValueError(f"the cell has no kernel: a kernel is a function marked __global__{_unmarked(source)}")


def _unmarked(source):
    """What may be meant as a kernel: a function with a misspelt mark, or without one."""
    from utils.cuda.common import cxx

    for function in cxx.functions(source):
        if not function.defined or "__device__" in function.words or "__host__" in function.words:
            continue
        wrong = next((word for word in function.words if get_close_matches(word, ["__global__", "global"], 1, 0.8)), "")
        if wrong or function.returns == "void":
            mark = f"is marked `{wrong}`" if wrong else "has no mark"
            return f". `{function.name}` in line {function.line} {mark}"
    return ""


def _hidden(error, names):
    """The kernels that an #if or a namespace hides from the compiler, if the error is about nothing else."""
    if any(which != "name" for which, _, _ in error.errors):
        return []
    lines = {line for _, line, message in error.errors if _UNDECLARED.search(message)}  # NVRTC may doubt later ones too
    return [name for line, name in enumerate(names, 1) if line in lines]


def load_ipython_extension(shell):
    """What `%load_ext utils.cuda.magic` calls."""
    shell.register_magics(CudaMagics)
