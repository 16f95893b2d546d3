"""Which of the engine's headers come last before CUDA C++ text. It is cheap to import, as every build does."""

from utils.cuda.common import cxx

__all__ = ["WORDS", "has_statements", "last_headers"]

#: The words that begin an asm statement.
WORDS = ("asm", "__asm__", "__asm")


def has_statements(source) -> bool:
    """Whether the source has inline PTX."""
    return any(token.text in WORDS for token in cxx.tokens(source))


def last_headers(texts) -> list[str]:
    """The headers that come behind all others before these texts; most of them only if a text needs them, as they take
    long to compile: for the functions of DPX, for nvcc's built-in atomics, and for inline PTX."""
    needed = {"dpx.h": "__vi", "nv_atomics.h": "__nv_atomic_"}
    found = [f"cuda_on_cpu/{header}" for header, word in needed.items() if any(word in text for text in texts)]
    return [*found, "cuda_on_cpu/as_nvcc.h", *(["cuda_on_cpu/ptx.h"] if any(map(has_statements, texts)) else [])]
