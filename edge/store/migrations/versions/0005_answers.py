"""Answers of people to questions about labelled pictures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "answers",
        sa.Column("id", _SERIAL, autoincrement=True, nullable=False),
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("frame", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Integer()),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("missed", sa.Integer()),
        sa.Column("marked", sa.JSON(), nullable=False),
        sa.Column("class_name", sa.Text()),
        sa.Column("student_box", sa.JSON()),
        sa.Column("teacher_box", sa.JSON()),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("height", sa.Integer(), nullable=False),
        sa.Column("answered_by", sa.Text(), nullable=False),
        sa.Column("at_utc_s", sa.Double(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_answers"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_answers_camera_window", "answers", ["camera", "window"], unique=False)
