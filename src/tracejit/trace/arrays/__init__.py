"""Arrays of NumPy among the arguments of which a function only makes tensors: these are arguments instead."""
