"""Classic optimisations, exact for every value."""
