"""Alembic's entry: runs the migrations on the connection that edge.store.database gives, in its transaction.

That transaction is all or nothing on both databases: a killed upgrade leaves nothing behind.
"""

from __future__ import annotations

from alembic import context

from edge.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_type=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
