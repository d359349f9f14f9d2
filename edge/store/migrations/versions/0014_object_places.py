"""The lines and zones of objects, and indexes for searches and days. Zones of objects that are kept are taken over;
which lines they crossed was not recorded."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_CHUNK = 2000
_LONGEST_NAME = 512


def upgrade() -> None:
    op.create_table(
        "object_places",
        sa.Column("object", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("way", sa.Text(), nullable=False),
        sa.Column("camera", sa.Text(), nullable=False),
        sa.Column("began_utc_s", sa.Double(), nullable=False),
        sa.Column("at_utc_s", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["object"], ["objects.id"], name="fk_object_places_object_objects", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("object", "kind", "name", "way", name="pk_object_places"),
    )
    _take_zones()
    for name, table, columns in (
        (
            "ix_object_places_kind_name_began_utc_s_object",
            "object_places",
            ["kind", "name", "began_utc_s", "object", "way", "camera"],
        ),
        ("ix_objects_camera_began_utc_s_id", "objects", ["camera", "began_utc_s", "id", "class_name"]),
        ("ix_objects_began_utc_s_id", "objects", ["began_utc_s", "id", "camera"]),
        ("ix_alarms_camera_began_utc_s", "alarms", ["camera", "began_utc_s"]),
        ("ix_alarms_camera_ended_utc_s", "alarms", ["camera", "ended_utc_s"]),
        ("ix_journal_camera_kind_at_utc_s", "journal", ["camera", "kind", "at_utc_s"]),
    ):
        op.create_index(name, table, columns, unique=False)
    op.drop_index("ix_objects_began_utc_s", table_name="objects")


def _take_zones() -> None:
    connection = op.get_bind()
    # As text: a document that cannot be read takes no others with it.
    read = sa.text(
        "SELECT id, camera, began_utc_s, CAST(zone_s AS TEXT) AS zones FROM objects WHERE id > :after ORDER BY id "
        "LIMIT :some"
    )
    write = sa.text(
        "INSERT INTO object_places (object, kind, name, way, camera, began_utc_s) "
        "VALUES (:object, 'zone', :name, '', :camera, :began)"
    )
    after = -1
    while rows := connection.execute(read, {"after": after, "some": _CHUNK}).all():
        after = rows[-1].id
        found = [
            {"object": row.id, "name": name, "camera": row.camera, "began": row.began_utc_s}
            for row in rows
            for name in _names(row.zones)
        ]
        if found:
            connection.execute(write, found)


def _names(zones: str) -> list[str]:
    """The names that this table takes."""
    try:
        found = json.loads(zones)
    except ValueError:
        return []
    return [n for n in found if 0 < len(n) <= _LONGEST_NAME and "\x00" not in n] if isinstance(found, dict) else []
