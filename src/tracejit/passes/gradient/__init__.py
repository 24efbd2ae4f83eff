"""Differentiation, and what the backward pass keeps."""
