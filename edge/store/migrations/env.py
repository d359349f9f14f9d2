"""Alembic's entry: runs the migrations on the connection (and in the transaction) that edge.store.database gives."""

from __future__ import annotations

from alembic import context

from edge.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # on SQLite too: a killed upgrade leaves nothing behind
    compare_type=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
