"""The paper itself: its statements, tables and figures as functions."""
