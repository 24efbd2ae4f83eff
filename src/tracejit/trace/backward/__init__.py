"""The backward pass of compiled code, and its place in the autograd graph."""
