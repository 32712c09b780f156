"""How to train for a task: everything that decides a run, as one frozen value."""
