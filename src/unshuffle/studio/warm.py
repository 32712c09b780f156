"""What the processes of pages have loaded when they begin: imported once, then forked. Nothing is computed here."""

from importlib import import_module

WANTED = (
    "studio.child",
    "studio.scenes",
    *(f"cli.{name}" for name in ("jigsaw", "strips", "tour", "seriate", "match", "train")),
    *(f"tasks.{name}" for name in ("jigsaw", "piles", "strips", "tour", "turned", "seriation")),
    *(
        f"solve.{name}"
        for name in ("kinds", "cycle.solver", "path.solver", "grid.solver", "match.front", "local_search")
    ),
    "recipes.sorting",
    "recipes.training",
)
for name in WANTED:
    import_module(f"unshuffle.{name}")
