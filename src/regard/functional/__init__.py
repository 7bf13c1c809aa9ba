"""The mathematics of attention: no parameters, no state."""
