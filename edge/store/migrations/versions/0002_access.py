"""Users, API tokens, sessions and one-time links; where a change came from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audit", sa.Column("address", sa.Text(), nullable=True))
    op.create_table(
        "users",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("cameras", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("password", sa.Text(), nullable=True),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("must_change", sa.Boolean(), nullable=False),
        sa.Column("created_utc_s", sa.Double(), nullable=False),
        sa.Column("changed_utc_s", sa.Double(), nullable=False),
        sa.Column("last_login_utc_s", sa.Double(), nullable=True),
        sa.CheckConstraint("role IN ('viewer', 'operator', 'admin')", name=op.f("ck_users_role_known")),
        sa.PrimaryKeyConstraint("name", name="pk_users"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("cameras", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("created_utc_s", sa.Double(), nullable=False),
        sa.Column("expires_utc_s", sa.Double(), nullable=True),
        sa.Column("last_used_utc_s", sa.Double(), nullable=True),
        sa.CheckConstraint("role IN ('viewer', 'operator', 'admin')", name=op.f("ck_tokens_role_known")),
        sa.ForeignKeyConstraint(["owner"], ["users.name"], name="fk_tokens_owner", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
    )
    op.create_index("ix_tokens_owner", "tokens", ["owner"], unique=False)
    op.create_index("uq_tokens_hash", "tokens", ["hash"], unique=True)
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("created_utc_s", sa.Double(), nullable=False),
        sa.Column("last_used_utc_s", sa.Double(), nullable=False),
        sa.Column("expires_utc_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["owner"], ["users.name"], name="fk_sessions_owner", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_index("ix_sessions_owner", "sessions", ["owner"], unique=False)
    op.create_index("uq_sessions_hash", "sessions", ["hash"], unique=True)
    op.create_table(
        "links",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("created_utc_s", sa.Double(), nullable=False),
        sa.Column("expires_utc_s", sa.Double(), nullable=False),
        sa.CheckConstraint("kind IN ('setup', 'login')", name=op.f("ck_links_kind_known")),
        sa.ForeignKeyConstraint(["owner"], ["users.name"], name="fk_links_owner", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("hash", name="pk_links"),
    )
