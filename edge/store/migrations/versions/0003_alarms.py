"""Alarms and objects."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "alarms",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("rule_name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("camera", sa.Text(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("began_utc_s", sa.Double(), nullable=False),
        sa.Column("ended_utc_s", sa.Double(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("object", sa.BigInteger(), nullable=True),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
        sa.Column("acknowledged_utc_s", sa.Double(), nullable=True),
        sa.Column("picture_bytes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alarms"),
    )
    op.create_index("ix_alarms_camera_id", "alarms", ["camera", "id"], unique=False)
    op.create_index("ix_alarms_rule_id", "alarms", ["rule", "id"], unique=False)
    op.create_index("ix_alarms_began_utc_s", "alarms", ["began_utc_s"], unique=False)
    op.create_index("ix_alarms_ended_utc_s", "alarms", ["ended_utc_s"], unique=False)
    op.create_table(
        "objects",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("class_name", sa.Text(), nullable=False),
        sa.Column("began_utc_s", sa.Double(), nullable=False),
        sa.Column("ended_utc_s", sa.Double(), nullable=True),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("box", sa.JSON(), nullable=False),
        sa.Column("zone_s", sa.JSON(), nullable=False),
        sa.Column("dwell_s", sa.Double(), nullable=False),
        sa.Column("picture_bytes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_objects"),
    )
    op.create_index("ix_objects_camera_id", "objects", ["camera", "id"], unique=False)
    op.create_index("ix_objects_began_utc_s", "objects", ["began_utc_s"], unique=False)
    op.create_index("ix_objects_ended_utc_s", "objects", ["ended_utc_s"], unique=False)
