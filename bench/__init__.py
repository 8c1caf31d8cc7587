"""Benchmarks: what is compared stands side by side in one run. See docs/benchmarks.md."""
