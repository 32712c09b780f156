"""One training loop for all tasks. `fit` gets items, never true orders; `predict` orders new data in one pass."""
