"""Networks from items (*batch, n, d) to scores (*batch, n, positions), or to one key per item.

All are permutation-equivariant: shuffling the items shuffles the rows of the scores, nothing else.
"""

from .context import ContextScorer as ContextScorer
from .items import ItemScorer as ItemScorer
from .items import KeyScorer as KeyScorer
from .items import count_parameters as count_parameters
from .items import standardised as standardised
from .seams import AskNeighbours as AskNeighbours
from .seams import SeamScorer as SeamScorer
from .tiles import TileScorer as TileScorer
from .tours import ScatteringAttention as ScatteringAttention
from .tours import TourScorer as TourScorer
from .tours import band_passes as band_passes
from .tours import diffusions as diffusions
from .tours import lazy_walks as lazy_walks
from .unrolled import UnrolledAnnealer as UnrolledAnnealer
