"""Tensor cores: fragments, products and how their sums are rounded."""
