"""Computation with a library and no I/O."""
