"""Tables, figures and one page, from result files alone: nothing here imports torch."""
