"""The native launcher and thread pool, in LLVM's assembly language, and calls that need no Python."""
