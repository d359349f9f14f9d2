"""Decisions for tenants: how much of one shared resource each gets, learned from the performance that follows. Pure."""
