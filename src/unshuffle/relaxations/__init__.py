"""Ways from scores to a soft permutation, behind one protocol."""
