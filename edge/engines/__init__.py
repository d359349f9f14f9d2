"""Engines of a fleet: they launch tasks on boxes. One module each behind the port `edge/core/engine.py`."""
