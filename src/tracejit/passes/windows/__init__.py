"""Convolutions, pooling and resampling, written out as products and elementwise work."""
