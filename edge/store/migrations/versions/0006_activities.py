"""Record the activity of a worker's share, which stood in executors' and the front's names only."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("UPDATE share_usage SET role = 'serving' WHERE role = 'inference' AND worker LIKE 'executor-%'")
    op.execute("UPDATE share_usage SET role = 'front' WHERE role = 'inference' AND worker = 'front'")
