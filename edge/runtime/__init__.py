"""The supervisor and its workers: the only place that acts on a plan."""
