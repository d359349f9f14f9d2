"""Benchmarks: one command each, `python -m benchmarks.bench_NAME`; results in benchmarks/results/."""
