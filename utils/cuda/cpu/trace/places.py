"""The memories of a recording: what their elements are, and where an address is in them."""

import re

import numpy as np

from utils.cuda.cpu.trace.source import array_dimensions, parameter_type
from utils.cuda.cpu.trace.values import KINDS, decoded, kind_of
from utils.cuda.player.recording import Memory, window

__all__ = ["Place"]

_SPACES = ("global", "shared", "constant", "local")


class Place:
    """One of the runtime's memories: what its elements are, and where an address is in it."""

    def __init__(self, memory, recorder):
        self.raw, self.begin, self.size = memory, memory["begin"], memory["bytes"]
        self.name, self.space = recorder.named(memory["name"]) or "a tensor", _SPACES[memory["space"]]
        tensor = recorder.tensors.get(self.begin)
        if tensor is not None and tensor.nbytes == self.size:
            self.type, self.itemsize = str(tensor.dtype).removeprefix("torch."), tensor.element_size()
            self.kind, self.shape = KINDS.get(self.type, ""), tuple(tensor.shape)
            self.type = {"f4": "float", "f8": "double", "i4": "int", "f2": "half"}.get(self.kind, self.type)
            if self.type == "bool":
                self.kind = "u1"
        else:
            declared = memory["type"] or parameter_type(memory["name"], recorder.trace.source)
            declared = declared or _declared_type(recorder.trace.source, self.name)
            self.type, self.kind, count = kind_of(declared.partition("[")[0] or "")
            sizes = array_dimensions(declared)
            element = int(self.kind[1:]) if self.kind and self.kind != "bf16" else 2 if self.kind else 0
            if not self.kind and (not declared or memory["element"] in (1, 2, 4, 8)):
                element, count = memory["element"], 1
                self.kind = {4: "f4", 8: "f8", 2: "f2", 1: "u1"}.get(element, "") if not declared else ""
            self.itemsize = element or memory["element"]
            whole = self.itemsize * count * int(np.prod(sizes or (1,)))
            self.shape = (*sizes, *([count] if count > 1 else [])) if whole == self.size else ()
            if not self.shape or whole != self.size:
                self.shape = (max(1, self.size // self.itemsize),)
        self.block = memory["block"] if memory["block"] >= 0 else None
        self.count = max(0, self.size // self.itemsize)

    def values(self, raw) -> list:
        """The elements that these bytes hold."""
        return decoded(raw, self.kind, self.itemsize)

    def where(self, address, size) -> str:
        """Where an address outside the memory is, in words."""
        before = self.begin - address
        if before > 0:
            return f"{before:,} bytes before the start of {self.name}"
        past = address - (self.begin + self.size)
        if past == 0:
            return f"the first byte past the end of {self.name}"
        return f"{past:,} bytes past the end of {self.name}" if past > 0 else f"across the end of {self.name}"

    def as_memory(self, steps, number) -> Memory:
        """The memory as a Recording has it; of a large one, the part that the steps touch."""
        part = window(steps, number, self.count)
        begin, count = part or (0, self.count)
        if self.space == "shared":
            values = [None] * count
        else:
            raw = np.frombuffer(self.raw["before"], np.uint8)[begin * self.itemsize : (begin + count) * self.itemsize]
            values = self.values(raw)
        block = None if self.block is None else self.block_number
        return Memory(
            self.name, self.space, self.type, self.itemsize, self.shape, values, block, part, self.raw["offset"]
        )


def _declared_type(source, name) -> str:
    """The element type of `extern __shared__ type name[]`; empty if the source does not declare it."""
    found = re.search(rf"extern\s+__shared__\s+([\w\s:]+?)\s*\b{re.escape(name)}\s*\[", source)
    return re.sub(r"__align__\s*\(\d+\)", "", found[1]).strip() if found else ""
