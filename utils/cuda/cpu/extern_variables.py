"""`extern __device__ int counter;` defines a variable where all device code is in one source (nvcc's warning 20044)."""

__all__ = ["edits"]

_MARKS = {"__device__", "__constant__", "__managed__"}
_NO_DECLARATION = {"__shared__", "=", "{"}


def edits(declared, host) -> list[tuple[int, int, str]]:
    """What makes definitions of the `extern` variables among these declarations, as (start, end, text).

    With `host` code, where its compiler reads each of them as one, they all are. NVRTC also takes several declarations
    of a variable, and its definition: then the last declaration defines what nothing else does.
    """
    variables = [d for d in declared if d.parameters is None]
    of_device = [
        d for d in variables if "extern" in d.words and _MARKS & {*d.words} and not _NO_DECLARATION & {*d.words}
    ]
    defined = {name for d in variables if d not in of_device for name in d.names}
    found = []
    for declaration in reversed(of_device):
        if host or not defined & {*declaration.names}:
            defined.update(declaration.names)
            found += [(token.start, token.end, "") for token in declaration.tokens if token.text in ("extern", '"C"')]
    return found
