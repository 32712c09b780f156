"""What the kernels share: numba or not, threads, torch's transforms, vector mathematics."""
