"""The Python of a call, generated; effects at its end; errors that leave it."""
