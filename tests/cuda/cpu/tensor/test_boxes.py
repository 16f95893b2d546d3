"""Boxes of tensor maps, loaded, stored and reduced: every byte of shared and of global memory against NumPy."""

import itertools
import random

import numpy as np
import pytest
import torch

from tests.cuda.cpu.asynchronous.test_tiles import HELPERS
from tests.cuda.cpu.tensor.encoding import encoded
from utils import tensor_map
from utils.cuda.kernel import compile_kernels

pytestmark = pytest.mark.usefixtures("on_cpu")

ROOM = 40 * 1024  # bytes of shared memory that a test looks at
OPS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def _copy(rank, way):
    """Device code that moves a box of `rank` coordinates: `load`, `store`, or a reduction."""
    begin, coordinates = (2 if way == "load" else 1), ", ".join(f'"r"(c[{i}])' for i in range(rank))
    places = ", ".join(f"%{k + begin + 1}" for k in range(rank))
    if way == "load":
        name = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        given = f'"r"(at(tile)), "l"(map), "r"(at(b)), {coordinates}'
        return f'asm volatile("{name} [%0], [%1, {{{places}}}], [%2];" :: {given} : "memory");'
    name = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
    if way != "store":
        name = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{way}.tile.bulk_group"
    return f'asm volatile("{name} [%0, {{{places}}}], [%1];" :: "l"(map), "r"(at(tile)), {coordinates} : "memory");'


def _kernels():
    """`load_2`, `store_3`, `add_2`: their arguments are a map, bytes to fill shared memory with or to write what
    is there then, coordinates, the bytes of a box, and where in shared memory the box begins."""
    text = HELPERS + "#include <cuda.h>\n"
    for rank in range(1, 6):
        for way in ("load", "store") if rank != 2 else ("load", "store", *OPS):
            loads = "expect(&full, bytes); " if way == "load" else ""
            waits = "commit(); wait_done<0>();" if way != "load" else ""
            text += f"""
__device__ void {way}_box_{rank}(void* tile, const CUtensorMap* map, const int* c, mbarrier* b) {{
    {_copy(rank, way)}
}}
__global__ void {way}_{rank}(const __grid_constant__ CUtensorMap map, unsigned char* all, const int* c, int bytes,
                             int begin) {{
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ mbarrier full;
    for (int i = threadIdx.x; i < {ROOM}; i += blockDim.x) tile[i] = all[i];
    fence_async();
    if (threadIdx.x == 0) {{ init(&full, 1); fence_init(); }}
    __syncthreads();
    if (threadIdx.x == 0) {{ {loads}{way}_box_{rank}(tile + begin, &map, c, &full); {waits} }}
    {"wait(&full, 0);" if way == "load" else "__syncthreads();"}
    for (int i = threadIdx.x; i < {ROOM}; i += blockDim.x) all[i] = tile[i];
}}
"""
    names = [f"{way}_{rank}" for way in ("load", "store") for rank in range(1, 6)] + [f"{op}_2" for op in OPS]
    return text, names


@pytest.fixture(scope="module")
def kernels():
    text, names = _kernels()
    return dict(zip(names, compile_kernels(text, names), strict=True))


def moved_to(offset, swizzle):
    """Where a byte of a tile is in shared memory: in rows of 128 bytes, that is eight chunks of 16. Swizzled, a chunk's
    number is combined with that of its row, as the CUDA C++ Programming Guide says."""
    row, chunk, byte = offset // 128, offset % 128 // 16, offset % 16
    chunks = {"none": 1, "32B": 2, "64B": 4, "128B": 8}[swizzle]
    inner = (chunk % chunks) ^ (row % chunks)
    return row * 128 + (chunk // chunks * chunks + inner) * 16 + byte


def elements(shape, box, at):
    """Pairs of an element's place in the box, as shared memory has it, and its index in the tensor; None outside."""
    for number, place in enumerate(itertools.product(*(range(size) for size in reversed(box)))):
        index = tuple(first + step for first, step in zip(reversed(at), place, strict=True))
        inside = all(0 <= i < size for i, size in zip(index, shape, strict=True))
        yield number, index if inside else None


def places(number, width, columns, begin, swizzle):
    """The bytes of shared memory that hold an element of a box of so many columns."""
    pitch = columns * width if swizzle == "none" else int(swizzle[:-1])
    first = begin + number // columns * pitch + number % columns * width
    return [moved_to(first + byte, swizzle) for byte in range(width)]


def random_bits(shape, dtype):
    """A tensor of random bits, whatever they mean."""
    width = torch.empty(0, dtype=dtype).element_size()
    return (
        torch.randint(0, 2 if dtype is torch.bool else 256, (*shape, width), dtype=torch.uint8).view(dtype).squeeze(-1)
    )


def bytes_of(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().reshape(*tensor.shape, -1)


def allowed(at, dtype, check):
    """Coordinates near these that a GPU takes: rows begin at 16 bytes, and what is stored not before the tensor."""
    unit = 16 // torch.empty(0, dtype=dtype).element_size()
    at = (at[0] // unit * unit, *at[1:])
    return at if check is check_load else tuple(max(0, place) for place in at)


def run(kernel, map_, memory, at, begin=0):
    bytes_ = int(np.prod(map_.box)) * map_.tensor.element_size()
    kernel[1, 32, ROOM](map_, memory, torch.tensor(at, dtype=torch.int32), bytes_, begin)


def check_load(kernels, shape, dtype, box, at, swizzle="none", begin=0):
    x = random_bits(shape, dtype)
    memory = torch.randint(0, 256, (ROOM,), dtype=torch.uint8)
    expected, source, width = memory.numpy().copy(), bytes_of(x), x.element_size()
    for number, index in elements(shape, box, at):
        expected[places(number, width, box[0], begin, swizzle)] = 0 if index is None else source[index]
    run(kernels[f"load_{len(shape)}"], tensor_map(x, box, swizzle), memory, at, begin)
    np.testing.assert_array_equal(memory.numpy(), expected)


def check_store(kernels, shape, dtype, box, at, swizzle="none", begin=0):
    y = random_bits(shape, dtype)
    memory = torch.randint(0, 2 if dtype is torch.bool else 256, (ROOM,), dtype=torch.uint8)
    expected, width = bytes_of(y).copy(), y.element_size()
    for number, index in elements(shape, box, at):
        if index is not None:
            expected[index] = memory.numpy()[places(number, width, box[0], begin, swizzle)]
    run(kernels[f"store_{len(shape)}"], tensor_map(y, box, swizzle), memory, at, begin)
    np.testing.assert_array_equal(bytes_of(y), expected)


SHAPES = {
    1: ((100,), (64,)),
    2: ((17, 80), (32, 5)),
    3: ((3, 5, 48), (16, 3, 2)),
    4: ((3, 2, 5, 32), (16, 3, 2, 2)),
    5: ((2, 3, 2, 3, 16), (16, 2, 2, 3, 2)),
}


@pytest.mark.parametrize("check", [check_load, check_store])
@pytest.mark.parametrize("rank", SHAPES)
def test_boxes_of_every_rank_anywhere_in_and_around_the_tensor(kernels, rank, check):
    shape, box = SHAPES[rank]
    sizes = tuple(reversed(shape))
    corners = [tuple([0] * rank), tuple(-(side // 2) for side in box), tuple(size - 1 for size in sizes)]
    corners += [tuple(-side for side in box), sizes, (-(2**31),) * rank, (2**31 - 1,) * rank]
    corners += [tuple(random.randint(-side, size) for side, size in zip(box, sizes, strict=True)) for _ in range(4)]
    for at in corners:
        dtype = random.choice([torch.float16, torch.float32, torch.uint8])
        check(kernels, shape, dtype, box, allowed(at, dtype, check))


@pytest.mark.parametrize("check", [check_load, check_store])
@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_swizzled_rows_are_where_the_hardware_puts_them(kernels, swizzle, check):
    span = int(swizzle[:-1])
    for dtype, begin in ((torch.bfloat16, 0), (torch.float32, 128), (torch.uint8, 1024 + 896), (torch.float64, 384)):
        width = torch.empty(0, dtype=dtype).element_size()
        columns = span // width
        at = allowed((random.randint(-columns, columns), random.randint(-9, 9)), dtype, check)
        check(kernels, (19, 2 * columns), dtype, (columns, 21), at, swizzle, begin)
        at = allowed((columns // 2, -1, 1), dtype, check)
        check(kernels, (3, 5, 2 * columns), dtype, (columns, 3, 3), at, swizzle, begin)
        for shorter in range(16 // width, columns, 16 // width):
            check(kernels, (19, 2 * columns), dtype, (shorter, 9), (16 // width, 2), swizzle, begin)


@pytest.mark.parametrize(
    "dtype",
    "bool uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 float8_e4m3fn".split(),
)
def test_every_type_moves_unchanged(kernels, dtype):
    for check in (check_load, check_store):
        at = allowed((random.randint(-15, 47), random.randint(-3, 8)), getattr(torch, dtype), check)
        check(kernels, (9, 48), getattr(torch, dtype), (16, 4), at)


@pytest.mark.parametrize(
    "way, dtype, at, message",
    [
        ("load", torch.float32, (5, 0), "the first coordinate 5, 20 bytes into a row of float32: it has to be"),
        ("load", torch.uint8, (-8, 0), "the first coordinate -8, -8 bytes into a row of uint8"),
        ("store", torch.float16, (4, 0), "the first coordinate 4, 8 bytes into a row of float16"),
        ("store", torch.float32, (-4, 0), r"the coordinate -4 \(number 1 of 2\): only a box that is loaded"),
        ("add", torch.float32, (0, -1), r"the coordinate -1 \(number 2 of 2\)"),
    ],
)
def test_places_that_a_gpu_refuses(kernels, way, dtype, at, message):
    x, memory = torch.ones(8, 64, dtype=dtype), torch.zeros(ROOM, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match=f"calls cp.*tensor.* with {message}"):
        run(kernels[f"{way}_2"], tensor_map(x, (32, 4)), memory, at)


def reduced(op, old, given):
    """What a reduction makes of elements, as NumPy arrays."""
    if op in ("inc", "dec"):
        up, down = np.where(old >= given, 0, old + 1), np.where((old == 0) | (old > given), given, old - 1)
        return (up if op == "inc" else down).astype(old.dtype)
    if op == "add" and old.dtype.kind in "iu":
        return (old.astype(np.uint64) + given.astype(np.uint64)).astype(old.dtype)
    by = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or}
    return by.get(op, np.bitwise_xor)(old, given)


HAVE = {
    "uint32": OPS,
    "int32": ("add", "min", "max", "and", "or", "xor"),
    "uint64": ("add", "min", "max", "and", "or", "xor"),
    "int64": ("min", "max"),
    "float16": ("add", "min", "max"),
    "bfloat16": ("add", "min", "max"),
    "float32": ("add",),
    "float64": ("add",),
}


def _values(shape, name):
    if name.startswith(("float", "bfloat")):
        return torch.randn(shape).to(getattr(torch, name))
    return random_bits(shape, getattr(torch, name))


def _numbers(tensor):
    return tensor.float().numpy() if tensor.dtype is torch.bfloat16 else tensor.numpy()


@pytest.mark.parametrize("name", HAVE)
def test_reductions(kernels, name):
    shape, box, at, begin = (11, 40), (32, 6), (16, 7), 256
    for op in HAVE[name]:
        y, tile = _values(shape, name), _values((6, 32), name)
        memory = torch.zeros(ROOM, dtype=torch.uint8)
        memory[begin : begin + tile.nbytes] = tile.view(torch.uint8).flatten()
        expected = y.clone()
        part = reduced(op, _numbers(y)[7:, 16:], _numbers(tile)[:4, :24])
        expected[7:, 16:] = torch.from_numpy(part).to(y.dtype)
        run(kernels[f"{op}_2"], tensor_map(y, box), memory, at, begin)
        assert torch.equal(y, expected), op


def test_reductions_that_do_not_exist(kernels):
    for name, op in (
        ("float32", "min"),
        ("int64", "add"),
        ("int64", "xor"),
        ("int32", "inc"),
        ("uint8", "add"),
        ("float16", "and"),
    ):
        y, memory = _values((16, 32), name), torch.zeros(ROOM, dtype=torch.uint8)
        with pytest.raises(RuntimeError, match=f"tensor.{op} with a tensor map of {name}, which has no such reduction"):
            run(kernels[f"{op}_2"], tensor_map(y, (16, 4)), memory, (0, 0))


# ---- maps that only cuTensorMapEncodeTiled makes --------------------------------------------------------------------


def made(kernels, x, box, **changes):
    """The bytes of a map of a tensor of 2 dimensions, with `changes`, as cuTensorMapEncodeTiled's arguments."""
    sizes, strides = list(reversed(x.shape)), [x.stride(0) * x.element_size()]
    given = {"address": x.data_ptr(), "sizes": sizes, "strides": strides, "box": box, "steps": [1, 1], **changes}
    answer, bytes_ = encoded(kernels["load_2"]._module.library, **given)
    assert answer == 0
    return bytes_


def test_elements_between_are_left_out(kernels):
    x, memory = torch.randn(40, 32), torch.zeros(ROOM, dtype=torch.uint8)
    map_ = made(kernels, x, [16, 11], type=7, steps=[3, 4])  # the first is ignored
    kernels["load_2"][1, 32, ROOM](map_, memory, torch.tensor([8, 30], dtype=torch.int32), 3 * 64, 0)
    expected = torch.zeros(3, 16)
    expected[:3] = x[30:40:4, 8:24]
    assert torch.equal(memory[: 3 * 64].view(torch.float32).reshape(3, 16), expected) and not memory[3 * 64 :].any()
    with pytest.raises(RuntimeError, match="leaves out elements between those that it stores, which only a GPU can do"):
        kernels["store_2"][1, 32, ROOM](map_, memory, torch.tensor([8, 30], dtype=torch.int32), 0, 0)


@pytest.mark.parametrize("kind, dtype", [(6, "float16"), (7, "float32"), (8, "float64"), (9, "bfloat16")])
def test_outside_may_be_nan(kernels, kind, dtype):
    x, memory = torch.ones(8, 32, dtype=getattr(torch, dtype)), torch.zeros(ROOM, dtype=torch.uint8)
    swizzle = {"float16": 1, "float32": 2}.get(dtype, 0)
    map_ = made(kernels, x, [16, 4], type=kind, fill=1, swizzle=swizzle)
    kernels["load_2"][1, 32, ROOM](map_, memory, torch.tensor([-8, 6], dtype=torch.int32), 64 * x.element_size(), 0)
    got = memory[: 64 * x.element_size()].view(x.dtype)
    assert got.isnan().sum() == 64 - 2 * 8 and got.nansum() == 2 * 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"interleave": 1, "sizes": [8, 8, 8], "strides": [16, 128], "box": [8, 2, 2], "steps": [1] * 3},
            "interleaves its elements, which only a GPU can do",
        ),
        ({"type": 10}, "elements of float32_ftz, which only a GPU can do"),
        ({"type": 11}, "elements of tfloat32, which only a GPU can do"),
        ({"box": [16, 256], "sizes": [32, 4000]}, "does not fit into the block's shared memory"),
    ],
)
def test_maps_that_the_engine_cannot_use(kernels, changes, message):
    x, memory = torch.ones(8, 32), torch.zeros(ROOM, dtype=torch.uint8)
    map_ = made(kernels, x, **{"type": 7, "box": [16, 4], **changes})
    rank, begin = len(changes.get("sizes", "xy")), 32 * 1024 if "fit" in message else 0
    with pytest.raises(RuntimeError, match=rf"thread \(0, 0, 0\) of block .* calls cp.async.bulk.tensor .*{message}"):
        kernels[f"load_{rank}"][1, 32, ROOM](map_, memory, torch.zeros(rank, dtype=torch.int32), 256, begin)


def test_another_number_of_dimensions(kernels):
    memory, at = torch.zeros(ROOM, dtype=torch.uint8), torch.zeros(5, dtype=torch.int32)
    for way, x, rank, other in (
        ("load", torch.ones(8, 32), 3, "2 dimensions"),
        ("store", torch.ones(64), 2, "1 dimension"),
    ):
        with pytest.raises(RuntimeError, match=f"with {rank} coordinates, but the map's tensor has {other}$"):
            kernels[f"{way}_{rank}"][1, 32, ROOM](tensor_map(x, (16, 4)[: x.dim()]), memory, at, 256, 0)


def test_bytes_that_are_not_a_map(kernels):
    x, memory, at = torch.ones(8, 32), torch.zeros(ROOM, dtype=torch.uint8), torch.zeros(2, dtype=torch.int32)
    map_ = bytearray(made(kernels, x, [16, 4], type=7))
    map_[17] ^= 1
    for bytes_ in (bytes(map_), bytes(128)):
        with pytest.raises(RuntimeError, match="did not make, or that was changed since"):
            kernels["load_2"][1, 32, ROOM](bytes_, memory, at, 256, 0)
    for begin, way in ((64, "to"), (16, "to")):
        with pytest.raises(RuntimeError, match=f"{way} an address of shared memory that is not a multiple of 128"):
            kernels["load_2"][1, 32, ROOM](tensor_map(x, (16, 4)), memory, at, 256, begin)
    with pytest.raises(RuntimeError, match="from an address of shared memory that is not a multiple of 128"):
        kernels["store_2"][1, 32, ROOM](tensor_map(x, (16, 4)), memory, at, 256, 64)
