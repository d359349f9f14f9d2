"""Tracking: answers of one camera become objects with an identity."""

from edge.tracking.attributes import Attributes, AttributeVotes, are_news, matched, with_description
from edge.tracking.tracker import TrackerState, TrackerStep, expire, finish, live, step

__all__ = [
    "AttributeVotes",
    "Attributes",
    "TrackerState",
    "TrackerStep",
    "are_news",
    "expire",
    "finish",
    "live",
    "matched",
    "step",
    "with_description",
]
