"""Forecasts of changes, with what came of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "capacity_forecasts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at_utc_s", sa.Double(), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("forecast", sa.JSON(), nullable=False),
        sa.Column("outcome", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_capacity_forecasts"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_capacity_forecasts_at_utc_s", "capacity_forecasts", ["at_utc_s"], unique=False)
