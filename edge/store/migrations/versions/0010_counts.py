"""Counts of objects, and what labels say about them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "counts",
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("step_s", sa.Integer(), nullable=False),
        sa.Column("start_s", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("way", sa.Text(), nullable=False),
        sa.Column("class_name", sa.Text(), nullable=False),
        sa.Column("objects", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("standing_s", sa.Double(), nullable=False),
        sa.Column("most", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("camera", "step_s", "start_s", "kind", "name", "way", "class_name", name="pk_counts"),
    )
    op.create_index("ix_counts_step_s_start_s", "counts", ["step_s", "start_s"], unique=False)
    op.create_table(
        "count_watched",
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("step_s", sa.Integer(), nullable=False),
        sa.Column("start_s", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("answers", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("camera", "step_s", "start_s", name="pk_count_watched"),
    )
    op.create_index("ix_count_watched_step_s_start_s", "count_watched", ["step_s", "start_s"], unique=False)
    op.create_table(
        "count_checks",
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("start_s", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("class_name", sa.Text(), nullable=False),
        sa.Column("frames", sa.Integer(), nullable=False),
        sa.Column("followed", sa.Integer(), nullable=False),
        sa.Column("there", sa.Integer(), nullable=False),
        sa.Column("same", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("camera", "start_s", "kind", "name", "class_name", name="pk_count_checks"),
    )
    op.create_index("ix_count_checks_start_s", "count_checks", ["start_s"], unique=False)
