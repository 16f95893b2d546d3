"""cuTensorMapEncodeTiled of the engine's runtime, called as the driver's own is."""

import ctypes

# A correct map: 3 x 40 x 64 halves, boxes of 2 x 8 x 32.
GOOD = {
    "type": 6,
    "address": 4096,
    "sizes": [64, 40, 3],
    "strides": [128, 5120],
    "box": [32, 8, 2],
    "steps": [1, 1, 1],
    "interleave": 0,
    "swizzle": 0,
    "promotion": 0,
    "fill": 0,
    "to": 0,
}


def encoded(library, **changes):
    """The driver's answer, and the bytes of the map: GOOD with `changes`; `to` is how far its place is from a multiple
    of 128."""
    map_ = {**GOOD, **changes}
    place = ctypes.create_string_buffer(512)
    to = ctypes.addressof(place) + -ctypes.addressof(place) % 128 + map_["to"]
    sizes, strides = ((ctypes.c_uint64 * 8)(*map_[name]) for name in ("sizes", "strides"))
    box, steps = ((ctypes.c_uint32 * 8)(*map_[name]) for name in ("box", "steps"))
    address, rank = ctypes.c_void_p(map_["address"]), map_.get("rank", len(map_["sizes"]))
    kinds = [map_[name] for name in ("interleave", "swizzle", "promotion", "fill")]
    call = library.cuTensorMapEncodeTiled
    answer = call(ctypes.c_void_p(to), map_["type"], rank, address, sizes, strides, box, steps, *kinds)
    return answer, ctypes.string_at(to, 128)
