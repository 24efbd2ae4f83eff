"""From a graph to a program: views, buffers, steps, and the table that the launcher walks."""
