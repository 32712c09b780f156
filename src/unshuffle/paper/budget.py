"""What a table may cost, and in words what that is less than the paper's protocol."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Budget:
    """The sizes that are run (list lengths, cities, tiles a side), and what is spent on each; None: as the protocol has it."""

    sizes: tuple[int, ...]
    epochs: int | None = None
    batch: int | None = None
    samples: int | None = None
    lists: int | None = None  # for training
    instances: int | None = None  # of tours, for training
    pixels: int | None = None
    patience: int | None = None  # epochs without a better held-out loss, then the end
    seeds: int | None = None  # of those asked for
    whole_schedule: bool = (
        False  # of the temperature, broken off; else it is pressed into fewer epochs, and sorts worse
    )

    def cut(self, whole: Budget) -> str:
        """What is smaller than in the `whole` budget."""
        said = []
        for name in (field.name for field in fields(self) if field.name in WORDS):
            mine, full = getattr(self, name), getattr(whole, name)
            if mine is not None and full is not None and mine < full:
                first = "the first " if name == "epochs" and self.whole_schedule else ""
                said.append(first + WORDS[name].format(mine, full))
        return ", ".join(said)


WORDS = {
    "epochs": "{} of {} epochs",
    "batch": "batches of {} instead of {}",
    "samples": "{} of {} samples",
    "lists": "{:,} of {:,} training lists",
    "instances": "{:,} of {:,} instances",
    "pixels": "{} of {} pixels",
}
