"""Measurements of keepstep on real servers and real workers. `python -m benchmarks --help`."""
