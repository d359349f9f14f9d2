"""Composition root: builds the parts from a site configuration and offers their services."""
