"""Pure functions on matrices: scores, soft permutations, orders."""
