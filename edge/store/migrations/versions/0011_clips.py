"""Clips: the record of each; video and boxes lie in files beside the database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "clips",
        sa.Column("id", _SERIAL, autoincrement=True, nullable=False),
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("at_utc_s", sa.Double(), nullable=False),
        sa.Column("from_utc_s", sa.Double(), nullable=False),
        sa.Column("to_utc_s", sa.Double(), nullable=False),
        sa.Column("alarms", sa.JSON(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_clips"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_clips_camera_id", "clips", ["camera", "id"], unique=False)
    op.create_index("ix_clips_at_utc_s", "clips", ["at_utc_s"], unique=False)
