"""The demo: Mayfly's story, told on real processes. `python -m tests.journeys.demo` from the root of the repository."""
