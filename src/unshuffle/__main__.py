"""``python -m unshuffle``."""

from .cli.common import main

if __name__ == "__main__":
    main()
