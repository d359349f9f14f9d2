"""Common settings of the tests with made-up requests."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

#: The same requests in each run; a loaded machine fails nothing.
FUZZ = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
