"""Plans kept in the store, so that the next process need not make them again."""
