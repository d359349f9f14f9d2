"""Gpu-lets: planners of served inference behind one protocol, and what they and their callers need. All pure."""
