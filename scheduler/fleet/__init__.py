"""Decisions for a fleet of boxes: a matcher of named quantities, application-level schedulers, one controller. Pure."""
