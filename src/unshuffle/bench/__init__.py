"""Speed and memory of the operator, measured on the machine at hand; `unshuffle bench` prints it.

Everything is a ratio within one run: ours and the others take turns, in several rounds, and the median of the ratios of their fastest calls in each round counts, so
that a busy machine slows both alike; the lowest and the highest of them are told.
"""
