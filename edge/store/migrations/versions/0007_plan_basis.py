"""What plans were made from is recorded; rows of cameras removed before 0006 get the camera that their worker names."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("plans", sa.Column("basis", sa.JSON))
    # Users who may not see a camera are shown no row of it; these rows said whose they are in the worker's name only.
    for prefix in ("camera-", "retrain-"):
        op.execute(
            f"UPDATE share_usage SET camera = substr(worker, {len(prefix) + 1}) "
            f"WHERE camera IS NULL AND worker LIKE '{prefix}%'"
        )
