"""Pure functions on matrices of scores; the kernels live here and nowhere else."""
