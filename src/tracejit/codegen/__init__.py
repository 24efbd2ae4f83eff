"""Code generation: groups to loop nests, loop nests to kernel source, kernel source to machine code."""
