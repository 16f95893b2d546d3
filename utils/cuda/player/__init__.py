"""Watch a kernel: a `recording` holds what one launch did, step by step; the page and the pictures show it.

Independent of the engine and the lessons: the trace (`cpu/trace`) and the simulator (`lesson`) make recordings.
May import only `ground`.
"""
