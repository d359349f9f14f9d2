"""The vocabulary of Magpie: frozen values with shapes, units and ranges checked when built. stdlib and numpy only."""
