"""Corrections of hours and days that are settled, and sums of checks over clusters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("counts", sa.Column("settled", sa.Integer(), server_default="0", nullable=False))
    for name in ("corrected", "low", "high"):
        op.add_column("counts", sa.Column(name, sa.Double(), nullable=True))
    op.create_table(
        "count_check_sums",
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("step_s", sa.Integer(), nullable=False),
        sa.Column("start_s", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("way", sa.Text(), nullable=False),
        sa.Column("class_name", sa.Text(), nullable=False),
        sa.Column("frames", sa.Integer(), nullable=False),
        sa.Column("followed", sa.Integer(), nullable=False),
        sa.Column("there", sa.Integer(), nullable=False),
        sa.Column("same", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint(
            "camera", "step_s", "start_s", "kind", "name", "way", "class_name", name="pk_count_check_sums"
        ),
    )
    op.create_index("ix_count_check_sums_step_s_start_s", "count_check_sums", ["step_s", "start_s"], unique=False)
