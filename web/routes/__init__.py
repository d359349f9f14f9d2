"""The routes, one file per resource; each is a thin translation to the service."""
