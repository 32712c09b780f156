"""Tours."""
