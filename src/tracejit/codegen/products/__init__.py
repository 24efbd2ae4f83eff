"""Matrix products and convolutions over flat memory, in LLVM's assembly language."""
