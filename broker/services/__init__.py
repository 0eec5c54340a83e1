"""Use cases: ports in, the domain decides, ports out."""
