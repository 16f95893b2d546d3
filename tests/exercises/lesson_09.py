"""Wrong answers to the exercises of lesson 09: (verdict, what the solution has there, what replaces it)."""

WRONG = {
    "09-padding": [
        ("right, but slow", "[32][33]", "[32][32]"),
        ("right, but slow", "[32][33]", "[32][34]"),  # two numbers of padding
        ("right, but slow", "[32][33]", "[32][36]"),
        ("out of bounds", "[32][33]", "[32][31]"),
        ("raced", "    __syncthreads();\n", ""),
        ("uninitialized", "tile[tc][tr]", "tile[tr][tc]"),  # swapped indices
        ("right, but slow", "= tile[tc][tr]", "= x[c * w + r]"),  # around the tile: no conflicts, and 32 sectors
    ],
}
