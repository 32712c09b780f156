"""What makes an order good: losses on reordered items, pair energies on a layout of positions."""
