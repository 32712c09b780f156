"""Paths and tours of many items without whole matrices: each item knows its nearest ones, and that is all."""
