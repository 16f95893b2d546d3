"""Lessons made for a test, and the table that running them prints."""

import nbformat


def lesson(root, name, *cells, tags=()):
    nb = nbformat.v4.new_notebook()
    nb.cells = [nbformat.v4.new_markdown_cell(f"# {name}")]
    nb.cells += [nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)} if tags else {}) for source in cells]
    path = root / "notebooks" / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nb, path)
    return path


def rows(text):
    """The printed table: lesson -> (device, cells, result)."""
    lines = [line.split() for line in text.splitlines()]
    return {line[0]: (" ".join(line[1:-3]), line[-3], line[-1]) for line in lines if len(line) > 4 and "/" in line[-3]}
