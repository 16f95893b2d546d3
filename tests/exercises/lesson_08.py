"""Wrong answers to the exercises of lesson 08: (verdict, what the solution has there, what replaces it)."""

WRONG = {
    "08-stride": [
        ("wrong", "9: 32", "9: 36"),  # more sectors than lanes
        ("wrong", "0: 1", "0: 32"),  # lanes share a sector
        ("wrong", "3: 12", "3: 16"),  # rounded up to a power of two
        ("wrong", "6: 24", "6: 32"),
        ("wrong", "3: 12, 6: 24, 9: 32", "2: 8, 4: 16, 8: 32"),
    ],
    "08-energy": [
        ("out of bounds", "((const float4*)bodies)[i]", "((const float4*)bodies)[4 * i]"),
        ("crashed", "((const float4*)bodies)[i]", "*(const float4*)(bodies + i)"),  # misaligned
        ("out of bounds", "i >= n", "i > n"),
        ("wrong", "mass = body.w", "mass = body.x"),
        ("unwritten", "i >= n", "i >= n - 1"),
        (
            "right, but slow",  # what is to be mended
            "float4 body = ((const float4*)bodies)[i];\n    float x = body.x, y = body.y, z = body.z, mass = body.w;",
            "float x = bodies[4 * i], y = bodies[4 * i + 1], z = bodies[4 * i + 2], mass = bodies[4 * i + 3];",
        ),
        (
            "right, but slow",  # a struct without alignment is read number by number
            "float4 body = ((const float4*)bodies)[i];",
            "struct Body { float x, y, z, w; };\n    Body body = ((const Body*)bodies)[i];",
        ),
    ],
    "08-rows": [
        ("right, but slow", "r = i / w, c = i % w", "r = i % h, c = i / h"),  # what is to be mended
        ("out of bounds", "r = i / w, c = i % w", "r = i % w, c = i / w"),  # swapped
        ("out of bounds", "r = i / w, c = i % w", "r = i / h, c = i % h"),
        ("out of bounds", "i >= h * w", "i > h * w"),
        ("unwritten", "i >= h * w", "i >= h * w - 1"),
        ("raced", "c = i % w", "c = 0"),
    ],
}

RIGHT = {
    "08-energy": [
        (  # one load in the machine code, three in the source
            "((const float4*)bodies)[i];",
            "((const float4*)bodies)[i];\n    body.x = bodies[4 * i], body.y = ((const float4*)bodies)[i].y;",
        ),
    ],
}
