"""The database's tables (SQLAlchemy Core). The migrations build the same; a test compares the two.

Times are UTC epoch seconds. `window` columns hold the window's number. Rows of a window go when the window goes.
JSON documents are stored as text that is not searched inside, so that both databases treat them alike, but for the
tenant of a served model's alarm (edge.store.alarms). Columns of device seconds keep their first name, `gpu_seconds`.
"""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: SQLite numbers rows by itself only in a column called INTEGER.
_serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _of_window(nullable: bool = False) -> sa.Column[int]:
    key = sa.ForeignKey("windows.id", ondelete="CASCADE")
    return sa.Column("window", sa.BigInteger, key, nullable=nullable)


settings = sa.Table(
    "settings",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("value", sa.JSON, nullable=False),
    sa.Column("changed_by", sa.Text, nullable=False),
    sa.Column("changed_utc_s", sa.Double, nullable=False),
)

cameras = sa.Table(
    "cameras",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("settings", sa.JSON, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("created_utc_s", sa.Double, nullable=False),
    sa.Column("changed_utc_s", sa.Double, nullable=False),
)

# The audit: one row, with author and time, for every change of a setting or a camera ("settings/NAME", "camera/ID").
audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    sa.Column("at_utc_s", sa.Double, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("changed_by", sa.Text, nullable=False),
    sa.Column("value", sa.JSON(none_as_null=True)),
    sa.Column("address", sa.Text),  # where the request came from; None: this machine's own commands
    sa.Index("ix_audit_subject_id", "subject", "id"),
    sqlite_autoincrement=True,
)

# People and programs that may log in. Passwords are Argon2id hashes; tokens, sessions and links are kept as SHA-256 of
# what was given out.
users = sa.Table(
    "users",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("cameras", sa.JSON(none_as_null=True)),  # None: all
    sa.Column("tenants", sa.JSON(none_as_null=True)),  # None: all
    sa.Column("password", sa.Text),  # None: comes in by a link only
    sa.Column("disabled", sa.Boolean, nullable=False),
    sa.Column("must_change", sa.Boolean, nullable=False),
    sa.Column("created_utc_s", sa.Double, nullable=False),
    sa.Column("changed_utc_s", sa.Double, nullable=False),
    sa.Column("last_login_utc_s", sa.Double),
    sa.CheckConstraint("role IN ('viewer', 'operator', 'admin')", name="role_known"),
)


def _of_user(nullable: bool = False) -> sa.Column[str]:
    return sa.Column("owner", sa.Text, sa.ForeignKey("users.name", ondelete="CASCADE"), nullable=nullable)


tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    _of_user(),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("cameras", sa.JSON(none_as_null=True)),
    sa.Column("prefix", sa.Text, nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.Column("created_utc_s", sa.Double, nullable=False),
    sa.Column("expires_utc_s", sa.Double),
    sa.Column("last_used_utc_s", sa.Double),
    sa.CheckConstraint("role IN ('viewer', 'operator', 'admin')", name="role_known"),
    sa.Index("ix_tokens_owner", "owner"),
    sa.Index("uq_tokens_hash", "hash", unique=True),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("hash", sa.String(64), nullable=False),
    _of_user(),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("created_utc_s", sa.Double, nullable=False),
    sa.Column("last_used_utc_s", sa.Double, nullable=False),
    sa.Column("expires_utc_s", sa.Double, nullable=False),
    sa.Index("ix_sessions_owner", "owner"),
    sa.Index("uq_sessions_hash", "hash", unique=True),
)

# One-time links: a row goes when its link is used.
links = sa.Table(
    "links",
    metadata,
    sa.Column("hash", sa.String(64), primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    _of_user(nullable=True),
    sa.Column("created_utc_s", sa.Double, nullable=False),
    sa.Column("expires_utc_s", sa.Double, nullable=False),
    sa.CheckConstraint("kind IN ('setup', 'login')", name="kind_known"),
)

windows = sa.Table(
    "windows",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("start_utc_s", sa.Double, nullable=False),
    sa.Column("length_s", sa.Double, nullable=False),
    sa.Column("policy", sa.Text, nullable=False),
    sa.Column("settings", sa.JSON, nullable=False),
    sa.Column("open", sa.Boolean, nullable=False),
    sa.Column("closed_utc_s", sa.Double),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("details", sa.JSON, nullable=False),
    sa.Index("ix_windows_start_utc_s", "start_utc_s"),
)
# At most one window is open: the one that a restart goes on with.
sa.Index(
    "uq_windows_open",
    windows.c.open,
    unique=True,
    sqlite_where=windows.c.open.is_(sa.true()),
    postgresql_where=windows.c.open.is_(sa.true()),
)

camera_windows = sa.Table(
    "camera_windows",
    metadata,
    _of_window(),
    sa.Column("camera", sa.Text, nullable=False),
    sa.Column("model_version", sa.Text),
    sa.Column("realised", sa.JSON(none_as_null=True)),
    sa.Column("frozen", sa.JSON(none_as_null=True)),
    sa.Column("frames_sampled", sa.BigInteger, nullable=False),
    sa.Column("frames_labelled", sa.BigInteger, nullable=False),
    sa.Column("objects_labelled", sa.BigInteger, nullable=False),
    sa.Column("labelling_delay_s", sa.Double),
    sa.Column("profiling_delay_s", sa.Double),
    sa.Column("losses", sa.JSON, nullable=False),
    sa.Column("manifest", sa.Text),
    sa.Column("picture_bytes", sa.BigInteger, nullable=False),
    sa.Column("pictures_dropped", sa.Boolean, nullable=False),
    sa.Column("details", sa.JSON, nullable=False),
    sa.PrimaryKeyConstraint("window", "camera"),
    sa.Index("ix_camera_windows_camera_window", "camera", "window"),
)

plans = sa.Table(
    "plans",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    _of_window(),
    sa.Column("at_utc_s", sa.Double, nullable=False),
    sa.Column("cause", sa.Text, nullable=False),
    sa.Column("cause_code", sa.Text, nullable=False, server_default="recorded"),
    sa.Column("cause_camera", sa.Text),
    sa.Column("policy", sa.Text, nullable=False),
    sa.Column("objective", sa.Double, nullable=False),
    sa.Column("problem", sa.JSON, nullable=False),
    sa.Column("plan", sa.JSON, nullable=False),
    sa.Column("basis", sa.JSON),
    sa.Index("ix_plans_window_id", "window", "id"),
    sqlite_autoincrement=True,
)

profiles = sa.Table(
    "profiles",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    _of_window(),
    sa.Column("camera", sa.Text, nullable=False),
    sa.Column("config", sa.Text, nullable=False),
    sa.Column("at_utc_s", sa.Double, nullable=False),
    sa.Column("profile", sa.JSON, nullable=False),
    sa.Index("ix_profiles_window_id", "window", "id"),
    sa.Index("ix_profiles_camera_window", "camera", "window"),
    sqlite_autoincrement=True,
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    _of_window(),
    sa.Column("camera", sa.Text, nullable=False),
    sa.Column("config", sa.Text, nullable=False),
    sa.Column("share", sa.Double, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("started_utc_s", sa.Double, nullable=False),
    sa.Column("ended_utc_s", sa.Double),
    sa.Column("fraction", sa.Double, nullable=False),
    sa.Column("gpu_seconds", sa.Double, nullable=False, key="device_seconds"),
    sa.Column("accuracy_before", sa.Double),
    sa.Column("accuracy_after", sa.Double),
    sa.Column("promoted", sa.Boolean, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("model_version", sa.Text),
    sa.Index("ix_jobs_window", "window"),
    sa.Index("ix_jobs_camera_started_utc_s", "camera", "started_utc_s"),
    sa.Index("ix_jobs_state", "state"),
)

share_usage = sa.Table(
    "share_usage",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    _of_window(),
    sa.Column("at_utc_s", sa.Double, nullable=False),
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("camera", sa.Text),
    sa.Column("asked", sa.Double, nullable=False),
    sa.Column("granted", sa.Double, nullable=False),
    sa.Column("used", sa.Double, nullable=False),
    sa.Column("device_seconds", sa.Double, nullable=False),
    sa.Column("wall_s", sa.Double, nullable=False),
    sa.Column("throttled_fraction", sa.Double, nullable=False),
    sa.Index("ix_share_usage_window_id", "window", "id"),
    sqlite_autoincrement=True,
)

costs = sa.Table(
    "costs",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    _of_window(),
    sa.Column("camera", sa.Text),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("gpu_seconds", sa.Double, nullable=False, key="device_seconds"),
    sa.Column("wall_s", sa.Double, nullable=False),
    sa.Index("ix_costs_window_id", "window", "id"),
    sqlite_autoincrement=True,
)

versions = sa.Table(
    "versions",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("camera", sa.Text, nullable=False),
    sa.Column("blob", sa.String(64), nullable=False),
    sa.Column("spec", sa.JSON, nullable=False),
    sa.Column("created_utc_s", sa.Double, nullable=False),
    sa.Column("parent", sa.Text, sa.ForeignKey("versions.id")),
    sa.Column("window", sa.BigInteger),  # no key: a version outlives the window that trained it
    sa.Column("config", sa.Text),
    sa.Column("scores", sa.JSON, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("decided_by", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("pinned", sa.Boolean, nullable=False),
    sa.Column("frames", sa.BigInteger, nullable=False),
    sa.Column("gpu_seconds", sa.Double, nullable=False, key="device_seconds"),
    sa.Column("blob_kept", sa.Boolean, nullable=False),
    sa.CheckConstraint("state IN ('candidate', 'promoted', 'rejected', 'retired', 'rolled_back')", name="state_known"),
    sa.Index("ix_versions_camera_created_utc_s", "camera", "created_utc_s"),
    sa.Index("ix_versions_parent", "parent"),
    sa.Index("ix_versions_blob", "blob"),
)
sa.Index(
    "uq_versions_promoted",
    versions.c.camera,
    unique=True,
    sqlite_where=versions.c.state == sa.literal_column("'promoted'"),
    postgresql_where=versions.c.state == sa.literal_column("'promoted'"),
)

# Every change of a version's state (or pin), in order: its author (a person or a part of the appliance), and why.
decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    sa.Column("version", sa.Text, sa.ForeignKey("versions.id", ondelete="CASCADE"), nullable=False),
    sa.Column("camera", sa.Text, nullable=False),
    sa.Column("at_utc_s", sa.Double, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("decided_by", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Index("ix_decisions_version_id", "version", "id"),
    sa.Index("ix_decisions_camera_id", "camera", "id"),
    sqlite_autoincrement=True,
)

# The event journal. Ids only grow, so a reader can go on after the last id that it saw.
journal = sa.Table(
    "journal",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    sa.Column("at_utc_s", sa.Double, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("camera", sa.Text),
    sa.Column("window", sa.BigInteger),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Column("bytes", sa.Integer, nullable=False),
    sa.Index("ix_journal_kind_id", "kind", "id"),
    sa.Index("ix_journal_camera_id", "camera", "id"),
    sa.Index("ix_journal_window_id", "window", "id"),
    sa.Index("ix_journal_at_utc_s", "at_utc_s"),
    sa.Index("ix_journal_camera_kind_at_utc_s", "camera", "kind", "at_utc_s"),
    sqlite_autoincrement=True,
)

# Alarms that rules raised. `rule` is not a foreign key: a rule may be gone, its alarms stay. `subject` tells apart what
# a rule may see more than once on a camera (an object's id, a served model). A picture lies in a file beside the
# database.
alarms = sa.Table(
    "alarms",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("rule", sa.Text, nullable=False),
    sa.Column("rule_name", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("severity", sa.Text, nullable=False),
    sa.Column("camera", sa.Text),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("phase", sa.Text, nullable=False),
    sa.Column("began_utc_s", sa.Double, nullable=False),
    sa.Column("ended_utc_s", sa.Double),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("value", sa.Double),
    sa.Column("object", sa.BigInteger),
    sa.Column("details", sa.JSON, nullable=False),
    sa.Column("acknowledged_by", sa.Text),
    sa.Column("acknowledged_utc_s", sa.Double),
    sa.Column("picture_bytes", sa.Integer, nullable=False),
    sa.Index("ix_alarms_camera_id", "camera", "id"),
    sa.Index("ix_alarms_camera_began_utc_s", "camera", "began_utc_s"),
    sa.Index("ix_alarms_camera_ended_utc_s", "camera", "ended_utc_s"),
    sa.Index("ix_alarms_rule_id", "rule", "id"),
    sa.Index("ix_alarms_began_utc_s", "began_utc_s"),
    sa.Index("ix_alarms_ended_utc_s", "ended_utc_s"),
)

# Objects that the tracker followed.
objects = sa.Table(
    "objects",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("camera", sa.Text, nullable=False),
    sa.Column("class_name", sa.Text, nullable=False),
    sa.Column("began_utc_s", sa.Double, nullable=False),
    sa.Column("ended_utc_s", sa.Double),
    sa.Column("score", sa.Double, nullable=False),
    sa.Column("box", sa.JSON, nullable=False),
    sa.Column("zone_s", sa.JSON, nullable=False),
    sa.Column("dwell_s", sa.Double, nullable=False),
    sa.Column("picture_bytes", sa.Integer, nullable=False),
    sa.Column("attributes", sa.JSON, nullable=False, server_default="{}"),
    sa.Index("ix_objects_camera_id", "camera", "id"),
    # Searches go from the newest to the oldest, by a camera or through all; a day's timeline reads this index only.
    sa.Index("ix_objects_camera_began_utc_s_id", "camera", "began_utc_s", "id", "class_name"),
    sa.Index("ix_objects_began_utc_s_id", "began_utc_s", "id", "camera"),
    sa.Index("ix_objects_ended_utc_s", "ended_utc_s"),
)

# The lines that objects crossed, and the zones that they came into. `camera` and `began_utc_s` are the object's: a
# search reads this index alone.
object_places = sa.Table(
    "object_places",
    metadata,
    sa.Column("object", sa.BigInteger, sa.ForeignKey("objects.id", ondelete="CASCADE"), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("way", sa.Text, nullable=False),
    sa.Column("camera", sa.Text, nullable=False),
    sa.Column("began_utc_s", sa.Double, nullable=False),
    sa.Column("at_utc_s", sa.Double),  # null: recorded by a version that did not know it
    sa.PrimaryKeyConstraint("object", "kind", "name", "way"),
    sa.Index("ix_object_places_kind_name_began_utc_s_object", "kind", "name", "began_utc_s", "object", "way", "camera"),
)

# Messages for brokers and receivers, in the order in which they were made; a row goes when it was delivered.
outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    sa.Column("destination", sa.Text, nullable=False),
    sa.Column("lane", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("at_utc_s", sa.Double, nullable=False),
    sa.Column("bytes", sa.Integer, nullable=False),
    sa.Column("body", sa.JSON, nullable=False),
    sa.Index("ix_outbox_destination_id", "destination", "id"),
    sqlite_autoincrement=True,
)

# Messages that were given up, and why.
dead_letters = sa.Table(
    "dead_letters",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    sa.Column("destination", sa.Text, nullable=False),
    sa.Column("lane", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("at_utc_s", sa.Double, nullable=False),
    sa.Column("died_utc_s", sa.Double, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("bytes", sa.Integer, nullable=False),
    sa.Column("body", sa.JSON, nullable=False),
    sa.Index("ix_dead_letters_destination_id", "destination", "id"),
    sqlite_autoincrement=True,
)

# Answers of people to questions about labelled pictures: rows are only ever added. Boxes and names stand in them, so
# that they outlive the pictures. `camera` is not a foreign key: a camera may be gone, its answers stay.
answers = sa.Table(
    "answers",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    sa.Column("camera", sa.Text, nullable=False),
    sa.Column("window", sa.BigInteger, nullable=False),
    sa.Column("frame", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("candidate", sa.Integer),
    sa.Column("verdict", sa.Text, nullable=False),
    sa.Column("missed", sa.Integer),
    sa.Column("marked", sa.JSON, nullable=False),
    sa.Column("class_name", sa.Text),
    sa.Column("student_box", sa.JSON(none_as_null=True)),
    sa.Column("teacher_box", sa.JSON(none_as_null=True)),
    sa.Column("width", sa.Integer, nullable=False),
    sa.Column("height", sa.Integer, nullable=False),
    sa.Column("answered_by", sa.Text, nullable=False),
    sa.Column("at_utc_s", sa.Double, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("imported_by", sa.Text),
    sa.Index("ix_answers_camera_window", "camera", "window"),
    sqlite_autoincrement=True,
)

# Counted objects, in buckets of a minute, an hour and a day (`step_s`); a day, like all buckets, is one of UTC.
counts = sa.Table(
    "counts",
    metadata,
    sa.Column("camera", sa.Text, nullable=False),
    sa.Column("step_s", sa.Integer, nullable=False),
    sa.Column("start_s", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("way", sa.Text, nullable=False),
    sa.Column("class_name", sa.Text, nullable=False),
    sa.Column("objects", sa.BigInteger, nullable=False),
    sa.Column("seconds", sa.Double, nullable=False),
    sa.Column("standing_s", sa.Double, nullable=False),
    sa.Column("most", sa.Integer, nullable=False),
    # Of an hour or a day whose labels have all come: what they make of it (null: too few). 0: it is made when asked.
    sa.Column("settled", sa.Integer, nullable=False, server_default="0"),
    sa.Column("corrected", sa.Double),
    sa.Column("low", sa.Double),
    sa.Column("high", sa.Double),
    sa.PrimaryKeyConstraint("camera", "step_s", "start_s", "kind", "name", "way", "class_name"),
    sa.Index("ix_counts_step_s_start_s", "step_s", "start_s"),
)

# How much of the same buckets each camera was watched.
count_watched = sa.Table(
    "count_watched",
    metadata,
    sa.Column("camera", sa.Text, nullable=False),
    sa.Column("step_s", sa.Integer, nullable=False),
    sa.Column("start_s", sa.BigInteger, nullable=False),
    sa.Column("seconds", sa.Double, nullable=False),
    sa.Column("answers", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("camera", "step_s", "start_s"),
    sa.Index("ix_count_watched_step_s_start_s", "step_s", "start_s"),
)

# Crossings and objects in zones as they were followed, beside a teacher's labels, by minute.
count_checks = sa.Table(
    "count_checks",
    metadata,
    sa.Column("camera", sa.Text, nullable=False),
    sa.Column("start_s", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("way", sa.Text, nullable=False),
    sa.Column("class_name", sa.Text, nullable=False),
    sa.Column("frames", sa.Integer, nullable=False),
    sa.Column("followed", sa.Integer, nullable=False),
    sa.Column("there", sa.Integer, nullable=False),
    sa.Column("same", sa.Integer, nullable=False),
    sa.PrimaryKeyConstraint("camera", "start_s", "kind", "name", "way", "class_name"),
    sa.Index("ix_count_checks_start_s", "start_s"),
)

# The same checks, summed over clusters of `step_s` seconds.
count_check_sums = sa.Table(
    "count_check_sums",
    metadata,
    sa.Column("camera", sa.Text, nullable=False),
    sa.Column("step_s", sa.Integer, nullable=False),
    sa.Column("start_s", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("way", sa.Text, nullable=False),
    sa.Column("class_name", sa.Text, nullable=False),
    sa.Column("frames", sa.Integer, nullable=False),
    sa.Column("followed", sa.Integer, nullable=False),
    sa.Column("there", sa.Integer, nullable=False),
    sa.Column("same", sa.Integer, nullable=False),
    sa.PrimaryKeyConstraint("camera", "step_s", "start_s", "kind", "name", "way", "class_name"),
    sa.Index("ix_count_check_sums_step_s_start_s", "step_s", "start_s"),
)

# Clips of cameras. `asked_by`: a person; empty: rules. `alarms` are the ids of those that it shows; `outcome` is what
# came of it: the file, or the fault. Video and boxes lie in files beside the database.
clips = sa.Table(
    "clips",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    sa.Column("camera", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("asked_by", sa.Text, nullable=False),
    sa.Column("at_utc_s", sa.Double, nullable=False),
    sa.Column("from_utc_s", sa.Double, nullable=False),
    sa.Column("to_utc_s", sa.Double, nullable=False),
    sa.Column("alarms", sa.JSON, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("outcome", sa.JSON, nullable=False),
    sa.Index("ix_clips_camera_id", "camera", "id"),
    sa.Index("ix_clips_at_utc_s", "at_utc_s"),
    sqlite_autoincrement=True,
)

# Forecasts of changes of the box, as they were given; `outcome` is what came, once the change was made and measured.
capacity_forecasts = sa.Table(
    "capacity_forecasts",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    sa.Column("at_utc_s", sa.Double, nullable=False),
    sa.Column("asked_by", sa.Text, nullable=False),
    sa.Column("forecast", sa.JSON, nullable=False),
    sa.Column("outcome", sa.JSON(none_as_null=True)),
    sa.Index("ix_capacity_forecasts_at_utc_s", "at_utc_s"),
    sqlite_autoincrement=True,
)
