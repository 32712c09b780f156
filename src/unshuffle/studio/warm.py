"""What the processes of pages have loaded when they begin: imported once, then forked. Nothing is computed here."""

from ..cli import jigsaw, match, seriate, strips, tour, train  # noqa: F401
from ..solve import kinds  # noqa: F401
from ..tasks import jigsaw as _jigsaw  # noqa: F401
from ..tasks import seriation  # noqa: F401
from . import child, scenes  # noqa: F401
