"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("id", _SERIAL, autoincrement=True, nullable=False),
        sa.Column("at_utc_s", sa.Double(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("value", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_subject_id", "audit", ["subject", "id"], unique=False)
    op.create_table(
        "cameras",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_utc_s", sa.Double(), nullable=False),
        sa.Column("changed_utc_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_cameras"),
    )
    op.create_table(
        "journal",
        sa.Column("id", _SERIAL, autoincrement=True, nullable=False),
        sa.Column("at_utc_s", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("camera", sa.Text(), nullable=True),
        sa.Column("window", sa.BigInteger(), nullable=True),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_journal"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_journal_at_utc_s", "journal", ["at_utc_s"], unique=False)
    op.create_index("ix_journal_camera_id", "journal", ["camera", "id"], unique=False)
    op.create_index("ix_journal_kind_id", "journal", ["kind", "id"], unique=False)
    op.create_index("ix_journal_window_id", "journal", ["window", "id"], unique=False)
    op.create_table(
        "settings",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("changed_utc_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_settings"),
    )
    op.create_table(
        "versions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("blob", sa.String(length=64), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("created_utc_s", sa.Double(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.Column("window", sa.BigInteger(), nullable=True),
        sa.Column("config", sa.Text(), nullable=True),
        sa.Column("scores", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("frames", sa.BigInteger(), nullable=False),
        sa.Column("gpu_seconds", sa.Double(), nullable=False),
        sa.Column("blob_kept", sa.Boolean(), nullable=False),
        sa.CheckConstraint(
            "state IN ('candidate', 'promoted', 'rejected', 'retired', 'rolled_back')",
            name=op.f("ck_versions_state_known"),
        ),
        sa.ForeignKeyConstraint(["parent"], ["versions.id"], name="fk_versions_parent"),
        sa.PrimaryKeyConstraint("id", name="pk_versions"),
    )
    op.create_index("ix_versions_blob", "versions", ["blob"], unique=False)
    op.create_index("ix_versions_camera_created_utc_s", "versions", ["camera", "created_utc_s"], unique=False)
    op.create_index("ix_versions_parent", "versions", ["parent"], unique=False)
    op.create_index(
        "uq_versions_promoted",
        "versions",
        ["camera"],
        unique=True,
        sqlite_where=sa.text("state = 'promoted'"),
        postgresql_where=sa.text("state = 'promoted'"),
    )
    op.create_table(
        "windows",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("start_utc_s", sa.Double(), nullable=False),
        sa.Column("length_s", sa.Double(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("closed_utc_s", sa.Double(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_windows"),
    )
    op.create_index("ix_windows_start_utc_s", "windows", ["start_utc_s"], unique=False)
    op.create_index(
        "uq_windows_open",
        "windows",
        ["open"],
        unique=True,
        sqlite_where=sa.text("open"),
        postgresql_where=sa.text("open"),
    )
    op.create_table(
        "camera_windows",
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("model_version", sa.Text(), nullable=True),
        sa.Column("realised", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("frozen", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("frames_sampled", sa.BigInteger(), nullable=False),
        sa.Column("frames_labelled", sa.BigInteger(), nullable=False),
        sa.Column("objects_labelled", sa.BigInteger(), nullable=False),
        sa.Column("labelling_delay_s", sa.Double(), nullable=True),
        sa.Column("profiling_delay_s", sa.Double(), nullable=True),
        sa.Column("losses", sa.JSON(), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=True),
        sa.Column("picture_bytes", sa.BigInteger(), nullable=False),
        sa.Column("pictures_dropped", sa.Boolean(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["window"], ["windows.id"], name="fk_camera_windows_window", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("window", "camera", name="pk_camera_windows"),
    )
    op.create_index("ix_camera_windows_camera_window", "camera_windows", ["camera", "window"], unique=False)
    op.create_table(
        "costs",
        sa.Column("id", _SERIAL, autoincrement=True, nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("camera", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("gpu_seconds", sa.Double(), nullable=False),
        sa.Column("wall_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["window"], ["windows.id"], name="fk_costs_window", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_costs"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_costs_window_id", "costs", ["window", "id"], unique=False)
    op.create_table(
        "decisions",
        sa.Column("id", _SERIAL, autoincrement=True, nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("at_utc_s", sa.Double(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["version"], ["versions.id"], name="fk_decisions_version", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_decisions_camera_id", "decisions", ["camera", "id"], unique=False)
    op.create_index("ix_decisions_version_id", "decisions", ["version", "id"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("share", sa.Double(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("started_utc_s", sa.Double(), nullable=False),
        sa.Column("ended_utc_s", sa.Double(), nullable=True),
        sa.Column("fraction", sa.Double(), nullable=False),
        sa.Column("gpu_seconds", sa.Double(), nullable=False),
        sa.Column("accuracy_before", sa.Double(), nullable=True),
        sa.Column("accuracy_after", sa.Double(), nullable=True),
        sa.Column("promoted", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("model_version", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["window"], ["windows.id"], name="fk_jobs_window", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_camera_started_utc_s", "jobs", ["camera", "started_utc_s"], unique=False)
    op.create_index("ix_jobs_state", "jobs", ["state"], unique=False)
    op.create_index("ix_jobs_window", "jobs", ["window"], unique=False)
    op.create_table(
        "plans",
        sa.Column("id", _SERIAL, autoincrement=True, nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("at_utc_s", sa.Double(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("objective", sa.Double(), nullable=False),
        sa.Column("problem", sa.JSON(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["window"], ["windows.id"], name="fk_plans_window", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_plans"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_plans_window_id", "plans", ["window", "id"], unique=False)
    op.create_table(
        "profiles",
        sa.Column("id", _SERIAL, autoincrement=True, nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("at_utc_s", sa.Double(), nullable=False),
        sa.Column("profile", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["window"], ["windows.id"], name="fk_profiles_window", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_profiles"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_profiles_camera_window", "profiles", ["camera", "window"], unique=False)
    op.create_index("ix_profiles_window_id", "profiles", ["window", "id"], unique=False)
    op.create_table(
        "share_usage",
        sa.Column("id", _SERIAL, autoincrement=True, nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("at_utc_s", sa.Double(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("camera", sa.Text(), nullable=True),
        sa.Column("asked", sa.Double(), nullable=False),
        sa.Column("granted", sa.Double(), nullable=False),
        sa.Column("used", sa.Double(), nullable=False),
        sa.Column("device_seconds", sa.Double(), nullable=False),
        sa.Column("wall_s", sa.Double(), nullable=False),
        sa.Column("throttled_fraction", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["window"], ["windows.id"], name="fk_share_usage_window", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_share_usage"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_share_usage_window_id", "share_usage", ["window", "id"], unique=False)
