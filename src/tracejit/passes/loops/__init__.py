"""Passes over loops: their gradient, and work moved out of them."""
