"""Inverse temperature: over time, per entry, learned, and what it did."""
