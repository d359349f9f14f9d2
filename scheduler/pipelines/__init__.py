"""Decisions for pipelines: how the objective is split over modules, and which machines each module gets. Pure."""
