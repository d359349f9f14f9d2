"""Pipelines and gpu-lets chosen together: which part of the objective each stage gets, and which parts of devices."""
