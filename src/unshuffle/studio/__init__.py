"""See it work in a browser: one page on this machine, the command lines behind it, and what the solvers tell on the way."""
