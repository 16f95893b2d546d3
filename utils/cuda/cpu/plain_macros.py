"""Macros for parts of a launch or a declaration, and for kernels' names, are replaced before the source is read."""

from utils.cuda.common import cxx
from utils.cuda.common.lexer import expand

__all__ = ["edited", "lines_of", "with_plain_macros", "with_plain_words"]


def with_plain_words(source):
    """The source with each word as cxx.Token has it: `__global__` for `__attribute__((global))`, and on one line."""
    edits = []
    for token in cxx.tokens(source):
        written = source[token.start : token.end]
        if token.text.isidentifier() and written != token.text:
            edits.append((token.start, token.end, token.text + lines_of(written, token)))
    return edited(source, edits)


def with_plain_macros(source):
    """The source without macros for parts of a launch or of a declaration: `#define ON(grid, block) <<<grid, block>>>`.

    Such a macro is replaced where it is used, before anything else is read, and so is one that puts a name together:
    `#define KERNEL(type) scale_##type`.
    """
    macros = cxx.macros(source)
    plain = {name: macro for name, macro in macros.items() if _is_plain(macro)}
    names = {name: macro for name, macro in macros.items() if _is_name(macro)}
    if plain or names:
        tokens, edits = cxx.tokens(source), []
        for k, token in enumerate(tokens):
            if token.text in plain or not token.directive and token.text in names:
                if cxx.text_at(tokens, k - 1) not in ("define", "undef", "ifdef", "ifndef"):
                    edits += _replaced(source, tokens, k, plain | names)
        for name in plain:  # the definitions themselves, which no compiler needs any more
            for line in cxx.directives(source):
                if [t.text for t in line[1:3]] == ["define", name]:
                    edits.append((line[2].end, line[-1].end, lines_of(source[line[2].end : line[-1].end], line[2])))
        source = edited(source, edits)
    return _with_plain_shared(source)


def _with_plain_shared(source):
    """The source without macros that take arguments inside `__shared__` declarations: `__shared__ int a DIMS(2, 2);`.

    Only those outside brackets decide what is declared. A macro that has several definitions stays.
    """
    tokens, edits = cxx.tokens(source), []
    if not any(token.text == "__shared__" for token in tokens):
        return source
    defined = [line[2].text for line in cxx.directives(source) if cxx.text_at(line, 1) == "define" and len(line) > 2]
    macros = {name: macro for name, macro in cxx.macros(source).items() if defined.count(name) == 1}
    for k, token in enumerate(tokens):
        while token.text == "__shared__" and not token.directive and k < len(tokens) and tokens[k].text not in ";{)":
            macro = macros.get(tokens[k].text)
            if macro and macro.parameters is not None:
                macros["__LINE__"] = cxx.Macro("__LINE__", None, [tokens[k]._replace(text=str(tokens[k].line))])
                edits += _replaced(source, tokens, k, macros)
            k = cxx.step_over(tokens, k)
    return edited(source, edits)


def _replaced(source, tokens, k, macros):
    """What replaces the use of a macro at index k, as (start, end, text): one, or none if it is no use."""
    end = k + 1
    if macros[tokens[k].text].parameters is not None:
        end = (cxx.matching(tokens, k + 1) or k) + 1 if cxx.text_at(tokens, k + 1) == "(" else k
    if end > k:
        start, ends = tokens[k].start, tokens[end - 1].end
        text = cxx.written(expand(tokens[k:end], macros))
        yield start, ends, text + lines_of(source[start:ends], tokens[k])


def _is_plain(macro):
    """Whether this is a macro for the beginning of a launch or of a declaration, for a launch's sizes or an array's."""
    texts = [token.text for token in macro.body]
    sizes_of_array = texts[:1] == ["["] and texts[-1] == "]" and macro.parameters is None
    if texts[:1] == ["<<<"] or (texts[-1:] == [">>>"] and "##" not in texts) or sizes_of_array:
        return True
    parts = set(texts)
    return (
        "__shared__" in parts and not {";", "#", "##"} & parts or "__cluster_dims__" in parts and not {";", "{"} & parts
    )


def _is_name(macro):
    """Whether it pastes one name, of which its arguments are parts."""
    words, between = macro.body[::2], {token.text for token in macro.body[1::2]}
    return macro.parameters is not None and between == {"##"} and all(word.text.isidentifier() for word in words)


def lines_of(text, token):
    """The line ends in a text around a token, each after a backslash inside a macro."""
    return ("\\\n" if token.directive else "\n") * text.count("\n")


def edited(source, edits):
    """The source with each (start, end, replacement) of `edits`, none of which is inside another."""
    pieces, at = [], 0
    for start, end, replacement in sorted(edits):
        if start >= at:
            apart = " " if replacement.startswith("::") and source[start - 1 : start] == ":" else ""  # of a label
            pieces += [source[at:start], apart, replacement]
            at = end
    return "".join(pieces) + source[at:]
