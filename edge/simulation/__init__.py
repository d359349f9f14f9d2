"""Trace-driven simulation: the live controller and policies under a simulated clock, on windows that were recorded."""
