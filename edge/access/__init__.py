"""Users, sessions, tokens, one-time links and secrets: the right to come in, kept in the database and checked."""
