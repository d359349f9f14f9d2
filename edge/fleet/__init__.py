"""The agent of a box: its identity, its links to the other boxes, and its cameras as the fleet agreed on them."""
