"""What teachers and students share: how a published detector is described, fed and read. Imports edge.core only."""
