"""Counting of objects at lines, in zones and from zone to zone, and how true the counts are. Pure."""
