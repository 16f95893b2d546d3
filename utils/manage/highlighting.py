"""CUDA C++ inside Python cells, for Pygments, by the same rules as JupyterLab's in utils/manage/jupyter."""

import re

from IPython.lib.lexers import IPython3Lexer
from pygments.lexers import CudaLexer
from pygments.token import Error, String, Text

MAGIC = re.compile(r"\s*%%cuda\b[^\n]*\n")
HOLDS_CUDA = re.compile(r"__global__|__device__|\b(at|torch)::Tensor\b|<<<.*>>>")
QUOTE = re.compile(r'("""|\'\'\'|"|\')')


class CudaInPython(IPython3Lexer):
    """Python and IPython's magics; all of a %%cuda cell after its first line, and strings that hold kernels, as C++."""

    name = "Python with CUDA C++"
    aliases = ["python"]

    def get_tokens_unprocessed(self, text):
        magic = MAGIC.match(text)
        if magic:
            yield from super().get_tokens_unprocessed(magic[0])
            yield from cuda(magic.end(), text[magic.end() :])
            return
        parts = []  # of the string that is being read
        for at, kind, value in super().get_tokens_unprocessed(text):
            if kind in String and not (parts and QUOTE.fullmatch(value) and closed(parts)):
                parts.append((at, kind, value))
                continue
            yield from string(parts)
            parts = [(at, kind, value)] if kind in String else []
            if not parts:
                yield at, Text if kind is Error else kind, value
        yield from string(parts)


def closed(parts):
    """Whether the tokens of a string include its last: the next quote opens another."""
    quotes = [value for _, _, value in parts if QUOTE.fullmatch(value)]
    return len(quotes) > 1 and quotes[-1] == quotes[0]


def string(parts):
    """The tokens of a string; as C++ between the quotes if it holds CUDA."""
    inner = [index for index, (_, _, value) in enumerate(parts) if QUOTE.fullmatch(value)]
    code = "".join(value for _, _, value in parts[inner[0] + 1 : inner[-1]]) if len(inner) > 1 else ""
    if not HOLDS_CUDA.search(code):
        yield from parts
        return
    yield from parts[: inner[0] + 1]
    yield from cuda(parts[inner[0] + 1][0], code)
    yield from parts[inner[-1] :]


def cuda(start, code):
    """The tokens of CUDA C++ that begins at `start`. An excerpt may break off: nothing is marked as an error."""
    for at, kind, value in CudaLexer().get_tokens_unprocessed(code):
        yield start + at, Text if kind is Error else kind, value
