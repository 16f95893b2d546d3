"""Macros for parts of a launch or a declaration, and for kernels' names, are replaced before the source is read."""

from utils.cuda.common import cxx

__all__ = ["edited", "lines_of", "with_plain_macros"]


def with_plain_macros(source):
    """The source without macros for parts of a launch or of a declaration: `#define ON(grid, block) <<<grid, block>>>`.

    Such a macro is replaced where it is used, before anything else is read, and so is one that puts a name together:
    `#define KERNEL(type) scale_##type`.
    """
    macros = cxx.macros(source).items()
    plain = {name: macro for name, macro in macros if _is_plain(macro)}
    names = {name: macro for name, macro in macros if _is_name(macro)}
    if not plain and not names:
        return source
    tokens, edits = cxx.tokens(source), []
    for k, token in enumerate(tokens):
        macro = plain.get(token.text) or (not token.directive and names.get(token.text))
        if not macro or [t.text for t in tokens[k - 1 : k]] in (["define"], ["undef"], ["ifdef"], ["ifndef"]):
            continue
        end, given = k, {}
        if macro.parameters is not None:
            end = cxx.matching(tokens, k + 1) if cxx.text_at(tokens, k + 1) == "(" else None
            if end is None:
                continue
            parts = [cxx.written(part) for part in cxx.at_commas(tokens[k + 2 : end])]
            given = dict(zip(macro.parameters, parts, strict=False))
            if macro.parameters[-1:] == ["..."]:
                given["__VA_ARGS__"] = ", ".join(parts[len(macro.parameters) - 1 :])
        text = " ".join(given.get(part.text, part.text) for part in macro.body).replace(" ## ", "")
        edits.append((token.start, tokens[end].end, text + lines_of(source[token.start : tokens[end].end], token)))
    for name in plain:  # the definitions themselves, which no compiler needs any more
        for line in cxx.directives(source):
            if [t.text for t in line[1:3]] == ["define", name]:
                edits.append((line[2].end, line[-1].end, lines_of(source[line[2].end : line[-1].end], line[2])))
    return edited(source, edits)


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
