"""The copies of tensors that a trace works on; their memory comes from the library of traced code."""

import ctypes

import torch

from utils.cuda.cpu.trace.room import TooLarge

__all__ = ["bytes_at", "copied", "declared", "memory_at", "name_regions"]
__all__ += ["name_what_words_point_to", "wholes"]

_RED_ZONE = 4096  # bytes on both sides of a tensor that an out-of-bounds access may touch without harm
_ALIGNED = 512  # bytes to which torch aligns an allocation on a GPU
_ADDRESS = ctypes.sizeof(ctypes.c_void_p)
_ADDRESSES = (torch.int64, torch.uint64)  # the types of tensors that may hold addresses
_MOST_ADDRESSES = 10_000
_PATTERN = 0xFF  # in the red zones: NaN for floating point, -1 for integers


def declared(library):
    """A library of traced code, with types declared for what the runtime exports for traces (exports.cpp)."""
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    library.cuda_on_cpu_trace_begin.argtypes = [ctypes.c_longlong, size, ctypes.c_uint64, ctypes.c_bool]
    whole = [pointer, size, size]
    library.cuda_on_cpu_trace_region.argtypes = [ctypes.c_char_p, pointer, size, size, size, size, ctypes.c_int, *whole]
    library.cuda_on_cpu_trace_allocation.argtypes = [pointer, size, size, size, ctypes.c_int, size, *whole]
    library.cuda_on_cpu_trace_returned.argtypes = [pointer, size, size]
    library.cuda_on_cpu_trace_words.argtypes = [pointer, size]
    library.cuda_on_cpu_trace_end.restype = ctypes.c_char_p
    library.cuda_on_cpu_trace_memory.argtypes = [size, size, size]
    library.cuda_on_cpu_trace_memory.restype = pointer
    library.cuda_on_cpu_trace_free.argtypes = [pointer]
    return library


def name_regions(library, wanted, tensors, addresses, written):
    """Tell the runtime where each tensor is and what it is called; one passed twice keeps its first name."""
    places = {}
    for i, address in addresses.items():
        places.setdefault((address, tensors[i].nbytes), []).append(i)
    elements = {
        place: wanted[numbers[0]].pointee_size or tensors[numbers[0]].element_size()
        for place, numbers in places.items()
    }
    whole = wholes((address, size, elements[address, size]) for address, size in places)
    for (address, size), numbers in places.items():
        first = wanted[numbers[0]]
        name = first.name or f"argument {numbers[0] + 1}"
        place = [address, size, elements[address, size], first.alignment or 1, _RED_ZONE]
        place += [not written.isdisjoint(numbers), *whole[address]]
        if not library.cuda_on_cpu_trace_region(name.encode(), *place):
            raise TooLarge(f"no memory to record the accesses to {name}, {size:,} bytes: trace a smaller case")


def name_what_words_point_to(library, laid_out, tensors, addresses):
    """Tell the runtime of the tensors whose addresses the arguments hold, in a table of 64-bit integers or in a struct.

    The kernel reaches these tensors themselves, not copies.
    """
    tables = [addresses[i] for i, tensor in tensors.items() if tensor.dtype in _ADDRESSES]
    counts = [min(tensor.numel(), _MOST_ADDRESSES) for tensor in tensors.values() if tensor.dtype in _ADDRESSES]
    structs = [value for value in laid_out.values if not isinstance(value, ctypes.c_void_p)]
    tables += [ctypes.addressof(value) for value in structs]
    counts += [len(value) // _ADDRESS for value in structs]
    for table, count in zip(tables, counts, strict=True):
        library.cuda_on_cpu_trace_words(table, count)


def wholes(places) -> dict[int, tuple]:
    """By address the memory that a place shares with those that it overlaps: where it begins, its bytes, and the bytes
    of the smallest element. `places` are such triples too."""
    together = []
    for address, size, element in sorted(places):
        if together and address < together[-1][1]:
            last = together[-1]
            together[-1] = [last[0], max(last[1], address + size), min(last[2], element), [*last[3], address]]
        else:
            together.append([address, address + size, element, [address]])
    return {address: (begin, end - begin, element) for begin, end, element, all_ in together for address in all_}


def copied(tensors, library, at_end) -> dict[int, int]:
    """The addresses of copies of contiguous tensors, by the same keys. Tensors that overlap share one copy.

    A copy begins as far after a multiple of 512 bytes as its tensor does after the start of its storage, which on a GPU
    begins at such a multiple: so the accesses fall into the same sectors.
    """
    groups = []  # [numbers, where the first begins, where the last ends]
    for i, tensor in sorted(tensors.items(), key=lambda item: (str(item[1].device), item[1].data_ptr())):
        begin, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        last = groups[-1] if groups else None
        if last and tensors[last[0][0]].device == tensor.device and begin < last[2]:
            last[0].append(i)
            last[2] = max(last[2], end)
        else:
            groups.append([[i], begin, end])
    addresses = {}
    for numbers, begin, end in groups:
        first = tensors[numbers[0]]
        place = (end - begin, first.storage_offset() * first.element_size() % _ALIGNED, _RED_ZONE)
        address = library.cuda_on_cpu_trace_memory(*place)
        if not address:
            raise TooLarge(f"no memory for a copy of {end - begin:,} bytes: trace a smaller case")
        at_end.callback(library.cuda_on_cpu_trace_free, address)
        ctypes.memset(address - _RED_ZONE, _PATTERN, _RED_ZONE)
        ctypes.memset(address + end - begin, _PATTERN, _RED_ZONE)
        for i in numbers:
            addresses[i] = address + tensors[i].data_ptr() - begin
            bytes_at(addresses[i], tensors[i]).copy_(tensors[i])
    return {i: addresses[i] for i in tensors}


def bytes_at(address, like) -> torch.Tensor:
    """The memory at `address` as a tensor on the CPU, with the type and shape of `like`."""
    if like.nbytes == 0:
        return torch.empty_like(like, device="cpu")
    return torch.frombuffer(memory_at(address, like), dtype=like.dtype).reshape(like.shape)


def memory_at(address, like):
    """The memory at `address` as a buffer, with as many bytes as `like`."""
    return (ctypes.c_ubyte * like.nbytes).from_address(address)
