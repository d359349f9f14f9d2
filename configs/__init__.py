"""Annotated defaults that ship with Magpie."""
