"""Shares of a device made real: CPU groups and token buckets, CUDA MPS, green contexts (docs/shares.md).

Nothing is imported here, so that a worker that only needs its bucket stays small.
"""
