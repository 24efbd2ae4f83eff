"""The kernel language to LLVM: types, bodies, and innermost loops as vector code."""
