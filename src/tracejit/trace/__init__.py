"""Recording eager runs, and the guards that decide whether a recording may be replayed."""
