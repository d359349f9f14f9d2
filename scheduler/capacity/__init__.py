"""The effect of a change of a box on shares, learning and serving; intervals; comparison with the outcome."""
