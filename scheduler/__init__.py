"""All decisions of Magpie, pure: frozen values in, frozen values and a reason out. edge.core, stdlib and numpy only."""
