"""The appliance: everything of Magpie that touches the world."""
