"""What the builders for GPU and CPU share: reading C++, checking arguments, the cache, the toolchain, error messages.

May import only `ground`.
"""
