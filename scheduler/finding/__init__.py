"""A camera's day at a glance: objects by bucket of time, and the times without watching."""
