"""Objects have attributes, which applications give them that their camera feeds."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("objects", sa.Column("attributes", sa.JSON(), nullable=False, server_default="{}"))
