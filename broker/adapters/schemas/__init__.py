"""Arithmetic on schemas: the prover in its worker, validators, and answers that are remembered."""
