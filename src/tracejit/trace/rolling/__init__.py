"""Rolling: Python loops whose rounds repeat, found after recording, as one loop."""
