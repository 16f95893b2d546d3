"""Which lane holds what when tensor cores multiply: `fragments("mma.m16n8k16.bf16")`; `plot_fragments` draws it."""

from utils.cuda.cpu.fragments import Fragments, Tile, fragments

__all__ = ["Fragments", "Tile", "fragments", "plot_fragments"]


def plot_fragments(instruction: str):
    """Draw the matrices of `d = a * b + c` with the lane that holds each element; returns the Figure.

    `instruction` is that of `fragments`: "mma.m16n8k16.bf16", "wmma.m16n16k16.f16". T5 is lane 5, and below it are the
    numbers of the elements in its fragment. Raises ValueError for what is no such instruction.
    """
    from utils.cuda.cpu.trace.pictures import picture_of_fragments  # matplotlib takes half a second to load

    return picture_of_fragments(fragments(instruction))
