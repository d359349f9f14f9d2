"""Decisions about learning: how much a window spends on labels, profiles and retraining, and how much a plan may
promise.
"""
