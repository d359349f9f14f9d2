"""Decisions about clips: what can be asked for, where one is cut, which are kept. Pure."""
