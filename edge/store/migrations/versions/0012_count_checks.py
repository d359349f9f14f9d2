"""Checks of counts by direction. Those that were kept compared other counts: they are dropped."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _made_anew(sa.Column("way", sa.Text(), nullable=False))


def downgrade() -> None:
    _made_anew()


def _made_anew(*way: sa.Column[str]) -> None:
    op.drop_table("count_checks")
    named = [column.name for column in way]
    op.create_table(
        "count_checks",
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("start_s", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        *way,
        sa.Column("class_name", sa.Text(), nullable=False),
        sa.Column("frames", sa.Integer(), nullable=False),
        sa.Column("followed", sa.Integer(), nullable=False),
        sa.Column("there", sa.Integer(), nullable=False),
        sa.Column("same", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("camera", "start_s", "kind", "name", *named, "class_name", name="pk_count_checks"),
    )
    op.create_index("ix_count_checks_start_s", "count_checks", ["start_s"], unique=False)
