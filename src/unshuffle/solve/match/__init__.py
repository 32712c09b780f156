"""Two sets, each known by its inner structure: which item of one is which of the other."""
