"""The person who brought an answer in has a column of its own. Old rows, with both people in one text ("ann via bob"),
are read once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_VIA = " via "


def upgrade() -> None:
    op.add_column("answers", sa.Column("imported_by", sa.Text()))
    answers = sa.table("answers", sa.column("answered_by"), sa.column("imported_by"), sa.column("source"))
    both = sa.and_(answers.c.source == "import", answers.c.answered_by.like(f"%{_VIA}%"))
    connection = op.get_bind()
    for text in connection.execute(sa.select(answers.c.answered_by).where(both).distinct()).scalars().all():
        # An answer that went through several hands: the last one brought it in here.
        person, importer = text.partition(_VIA)[0], text.rpartition(_VIA)[2]
        if person and importer and person != text:
            row = answers.update().where(both, answers.c.answered_by == text)
            connection.execute(row.values(answered_by=person, imported_by=importer))
