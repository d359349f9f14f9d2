"""Users, sessions, tokens, one-time links and secrets: who may come in, kept in the database and checked."""
