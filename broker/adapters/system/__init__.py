"""Clock and randomness."""
