"""Products and sums in a cheaper form."""
