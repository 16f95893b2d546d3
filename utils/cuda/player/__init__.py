"""A kernel that can be watched: `recording` is what one launch did, step by step; the page and the pictures show it.

Knows neither the engine nor the lessons: the trace (`cpu/trace`) and the simulator (`lesson`) make recordings.
May import only `ground`.
"""
