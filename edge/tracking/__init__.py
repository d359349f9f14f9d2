"""Tracking: answers of one camera become objects with an identity."""

from edge.tracking.tracker import TrackerState, TrackerStep, expire, finish, live, step

__all__ = ["TrackerState", "TrackerStep", "expire", "finish", "live", "step"]
