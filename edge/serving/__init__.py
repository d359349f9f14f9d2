"""Adapters of served inference: models, executors, the front, the profiler."""
