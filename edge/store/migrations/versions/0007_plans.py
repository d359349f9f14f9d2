"""Why a plan was made is recorded as a code and a camera, beside the words, and from what it was made. Old rows are
read out of their words, once.

Two mends of old rows go with it: shares used by workers of cameras that were removed name their camera, where it stood
in the worker's name only; complaints in the journal have one kind, with their code beside the message.
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_WHOLE = {
    "labels and profiles are in": "prepared",
    "first window: nothing to retrain on yet": "first_window",
    "restarted inside a window: planned again with what is left": "restarted",
    "restarted inside a window without a plan": "restarted_without_plan",
    "capacity changed": "capacity_changed",
}
#: An id of a camera has neither space nor colon.
_OF_CAMERA = (
    (r"camera (\S+) joined", "camera_joined"),
    (r"camera (\S+) left", "camera_left"),
    (r"([^\s:]+): its profiles came late", "profiles_late"),
    (r"([^\s:]+): the retraining costs .+ GPU-s", "work_corrected"),
    (r"([^\s:]+): .+ GPU-s done where .+ were expected", "progress_unexpected"),
    (r"([^\s:]+): the retraining is later than planned", "retraining_late"),
    (r"([^\s:]+): retraining completed, (?:not )?promoted", "retraining_completed"),
    (r"([^\s:]+): retraining failed", "retraining_failed"),
    (r"([^\s:]+): the group's retraining is over", "group_over"),
)


def upgrade() -> None:
    for name in ("camera", "retrain"):
        begin = len(name) + 2
        op.execute(
            f"UPDATE share_usage SET camera = substr(worker, {begin}) WHERE camera IS NULL AND worker LIKE '{name}-%'"
        )
    op.add_column("plans", sa.Column("cause_code", sa.Text(), nullable=False, server_default="recorded"))
    op.add_column("plans", sa.Column("cause_camera", sa.Text()))
    op.add_column("plans", sa.Column("basis", sa.JSON))
    _read_causes()
    _one_kind_of_complaints()


def _read_causes() -> None:
    plans = sa.table("plans", sa.column("cause"), sa.column("cause_code"), sa.column("cause_camera"))
    connection = op.get_bind()
    for cause in connection.execute(sa.select(plans.c.cause).distinct()).scalars().all():
        code, camera = _read(cause)
        row = plans.update().where(plans.c.cause == cause).values(cause_code=code, cause_camera=camera)
        connection.execute(row)


def _read(cause: str) -> tuple[str, str | None]:
    if cause in _WHOLE:
        return _WHOLE[cause], None
    for pattern, code in _OF_CAMERA:
        found = re.fullmatch(pattern, cause)
        if found is not None:
            return code, found[1]
    return "recorded", None


def _one_kind_of_complaints() -> None:
    journal = sa.table("journal", sa.column("id"), sa.column("kind"), sa.column("data", sa.JSON()))
    connection = op.get_bind()
    old = sa.select(journal.c.id, journal.c.kind, journal.c.data).where(journal.c.kind.like("complaint.%"))
    for number, kind, data in connection.execute(old).all():
        given = {"code": kind.removeprefix("complaint.")} | dict(data or {})
        connection.execute(journal.update().where(journal.c.id == number).values(kind="complaint", data=given))
