"""Speed and memory of the operator, measured on the machine at hand; `unshuffle bench` prints it.

Everything is a ratio within one run: ours and the others take turns, and the fastest turn of each counts, so that a busy
machine slows both alike.
"""
