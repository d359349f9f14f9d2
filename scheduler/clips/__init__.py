"""Decisions about clips: the wishes that can be granted, the cut, the clips that are kept. Pure."""
