"""One Sinkhorn operator and its backends."""
