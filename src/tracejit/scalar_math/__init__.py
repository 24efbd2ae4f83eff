"""Elementary functions in the kernel language: without branches, vectorisable, with a documented error bound.

The functions are ordinary Python over the primitives of `scalar_math.primitives`. The same text runs on NumPy scalars
and arrays (under ``np.errstate(all="ignore")``), compiles under Numba, and is lowered to LLVM, always with the same
result bit for bit: no step may be contracted or re-associated, and fused multiply-adds are written out.
`scalar_math.library` knows them all by name.
"""
