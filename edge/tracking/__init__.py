"""Tracking: answers of one camera become objects with an identity."""

from edge.tracking.tracker import Step, TrackerState, expire, finish, live, step

__all__ = ["Step", "TrackerState", "expire", "finish", "live", "step"]
