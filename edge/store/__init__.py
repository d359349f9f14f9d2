"""Magpie's memory: the database (SQLite or PostgreSQL) and the model blobs on disk.

`edge.store.store.Store` is the one entry point, with a part for each kind of records;
`edge.store.journal.JournalBuffer` takes events from those who must not wait.
"""
