"""Device functions that nothing in a source calls: PTX in them is never compiled by ptxas, nor run here."""

from utils.cuda.common import cxx

__all__ = ["in_unused_function"]


def in_unused_function(source, at) -> bool:
    """Whether the character `at` is inside a device function that no kernel, host function or macro leads to."""
    inner = [f for f in cxx.functions(source) if "__device__" in f.words and "__global__" not in f.words]
    spans = [(f.tokens[0].start, f.tokens[-1].end) for f in inner]
    tokens = [token for token in cxx.tokens(source) if not any(a <= token.start < b for a, b in spans)]
    mentioned, ahead = set(), {token.text for token in tokens}
    while ahead:
        mentioned |= ahead
        ahead = {t.text for f in inner if f.name in ahead for t in f.tokens[f.head :]} - mentioned
    return any(a <= at < b and f.name not in mentioned for f, (a, b) in zip(inner, spans, strict=True))
