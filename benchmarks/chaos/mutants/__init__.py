"""The engine broken on purpose, in the workers only, by what `--mutant` has them load. Such a run must fail."""
