"""The common ground of teachers and students: how a published detector is described, fed and read. Imports edge.core
only."""
