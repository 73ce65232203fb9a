"""Exact planning: gains, diameters, optimism, hardness."""
