"""Clips: a ring of coded packets, and MP4 files made of them without coding anew."""
