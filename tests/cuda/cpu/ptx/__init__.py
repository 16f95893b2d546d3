"""Tests of inline PTX on the CPU engine: one instruction at a time, statements, and what traces say of them."""
