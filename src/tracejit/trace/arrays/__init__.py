"""Arguments in whose place something else is compared: arrays of which tensors are made, what is not looked at."""
