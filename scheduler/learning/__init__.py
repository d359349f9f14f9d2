"""Decisions about learning: what a window spends on labels, profiles and retraining, and what a plan may promise."""
