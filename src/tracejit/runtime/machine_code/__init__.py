"""Object code: made in helpers, kept in the store, linked into memory."""
