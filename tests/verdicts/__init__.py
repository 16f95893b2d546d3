"""CUDA snippets close to the border of what nvcc accepts, by theme.

A file is a theme. A snippet in it begins with the line `//// name` and has a kernel `k`. nvcc's verdict on each is in
bench/recorded/verdicts.json, which `python -m bench.recorded.verdicts` writes.
"""

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["SNIPPETS", "Snippet"]


class Snippet(NamedTuple):
    """A CUDA text with a kernel `k`."""

    theme: str  # the file's name, 'overloads'
    name: str  # 'max_float_int'
    text: str

    @property
    def key(self) -> str:
        """Its name among all: 'overloads/max_float_int'."""
        return f"{self.theme}/{self.name}"

    @property
    def hash(self) -> str:
        """8 hexadecimal digits that change when the text does."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:8]


def _snippets(path):
    parts = re.split(r"^//// (\w+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [Snippet(path.stem, name, text) for name, text in zip(parts[1::2], parts[2::2], strict=True)]


SNIPPETS = [snippet for path in sorted(Path(__file__).parent.glob("*.cu")) for snippet in _snippets(path)]
