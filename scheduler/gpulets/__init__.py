"""Gpu-lets: planners of served inference behind one protocol, and the values that they share with their callers. All
pure.
"""
