"""The learner's own files as the CPU engine compiles them: translated, and below a build's folder under their own
paths, so that they find each other as before."""

import os
from pathlib import Path

from utils.cuda.common import preprocessor
from utils.cuda.common.program import headers_of, is_device_code

__all__ = ["INCLUDE", "header_texts", "inside", "place", "placed_headers", "shared_in", "translated"]

INCLUDE = Path(__file__).parent / "include"  # what replaces CUDA's headers and torch's


def translated(which, source, traced=False, **options):
    """C++ for the CPU; `which` names the source in messages. Raises CompileError for one that cannot be translated."""
    __tracebackhide__ = True
    # Here, because loading an earlier build needs none of it.
    from utils.cuda.cpu.array_members import with_marks_around_structs
    from utils.cuda.cpu.called_from import with_calls_marked
    from utils.cuda.cpu.casts import with_sums_once
    from utils.cuda.cpu.designators import without_designators
    from utils.cuda.cpu.local_arrays import with_marks
    from utils.cuda.cpu.shifts import with_shifts_once
    from utils.cuda.cpu.translate import NeedsGPU, TranslationError, translate
    from utils.cuda.cpu.unset_locals import with_unset_locals
    from utils.cuda.cpu.wrappers import with_wrappers_inlined

    try:
        source = with_sums_once(source)
        if traced:
            source = without_designators(source)  # before with_marks writes the lists elsewhere
            source = with_marks(with_shifts_once(with_calls_marked(source)))
            source = with_unset_locals(with_marks_around_structs(source))
            source = with_wrappers_inlined(source)
        return translate(source, **options)
    except TranslationError as error:
        from utils.cuda.common.diagnostics import refused  # here: only an error needs it

        raise refused(which, source, error.line, str(error), needs_gpu=isinstance(error, NeedsGPU)) from None


def header_texts(*sources, options=()) -> dict[str, str]:
    """The texts of the headers that the engine translates for these sources, by name, as messages name them."""
    return {path.name: text for path, text in headers_of(*sources, options=options, provided=INCLUDE).items()}


def placed_headers(sources, folder, options=(), traced=False, host=True):
    """Write the learner's own headers that the texts `sources` include below `folder`, translated where they are CUDA.

    Returns their texts, and the flags with which a compiler finds them before the originals.
    """
    __tracebackhide__ = True
    headers = headers_of(*sources, options=options, provided=INCLUDE)
    root, elsewhere = folder / "source", shared_in(headers.values())
    for path, text in headers.items():
        place(root, path, text, is_device_code(text), traced, host=host, whole=host, elsewhere=elsewhere)
    if not headers:
        return [], []
    folders = [inside(root, os.path.abspath(place)) for place in preprocessor.include_folders(options)]
    return list(headers.values()), ["-iquote", str(inside(root, Path.cwd())), *(f"-I{place}" for place in folders)]


def shared_in(headers) -> frozenset[str]:
    """The names of the `__shared__` variables that these texts declare outside of functions."""
    from utils.cuda.cpu.translate import shared_outside

    return frozenset().union(*map(shared_outside, headers))


def inside(root, path) -> Path:
    """Where a file or a folder of a program is below `root`."""
    return root / str(path).lstrip("/")


def place(root, path, text, is_cuda, traced, **options):
    """Write a file of a program below `root`, translated if it is CUDA. A compiler names its own path and lines."""
    __tracebackhide__ = True
    if is_cuda:
        text = translated(path.name, text, traced, **options)
    placed = inside(root, path)
    placed.parent.mkdir(parents=True, exist_ok=True)
    with open(placed, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f'#line 1 "{path}"\n{text}\n')
