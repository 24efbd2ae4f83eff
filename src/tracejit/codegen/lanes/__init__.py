"""Small matrices, or short rows, worked on side by side: a lane of a vector for each."""
