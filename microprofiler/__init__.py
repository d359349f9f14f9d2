"""Short trial runs, learning-curve fit with uncertainty, cost model, pruning. Knows `edge.core` only.

`micro_profile` (profile.py) is the entrance; everything below it is a pure function of frozen values.
"""
