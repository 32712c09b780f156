"""What researchers hand over: arrays, frames and tensors of all kinds are taken without a warning (warnings are errors here)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch.utils.data import DataLoader, TensorDataset

import unshuffle as us

COST = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
MIXED = np.array([3, 0, 5, 1, 4, 2])


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


KINDS = {
    "array": lambda D: D,
    "read-only": read_only,
    "reversed": lambda D: np.ascontiguousarray(D[::-1, ::-1])[::-1, ::-1],
    "foreign bytes": lambda D: D.astype(">f8"),
    "whole": lambda D: D.astype(np.uint16),
    "lists": lambda D: D.tolist(),
    "tensor": torch.from_numpy,
    "with a gradient": lambda D: torch.from_numpy(D).requires_grad_(),
    "frame": lambda D: pytest.importorskip("pandas").DataFrame(D),
    "frame that may lack numbers": lambda D: pytest.importorskip("pandas").DataFrame(D).astype("Float64"),
    "frame of objects": lambda D: pytest.importorskip("pandas").DataFrame(D).astype(object),
}


FRAMES = [kind for kind in KINDS if kind.startswith("frame")]


@pytest.mark.parametrize("kind", KINDS)
def test_solve_takes_it(kind):
    found = us.solve(us.Path(6), cost=KINDS[kind](COST[np.ix_(MIXED, MIXED)]))
    assert MIXED[found.order.numpy()].tolist() in ([*range(6)], [*range(5, -1, -1)])


@pytest.mark.parametrize("kind", ["array", "read-only", "foreign bytes", "tensor", *FRAMES])
def test_predict_takes_it(kind):
    network = us.networks.ItemScorer(5)
    lists = np.random.default_rng(0).random((3, 5))
    plain = us.predict(network, torch.from_numpy(lists).float().unsqueeze(-1))
    given = KINDS[kind](lists if kind in FRAMES else lists[:, :, None])
    assert us.predict(network, given).order.tolist() == plain.order.tolist()


def test_what_a_frame_lacks_and_its_text_are_told():
    pandas = pytest.importorskip("pandas")
    lacking = pandas.DataFrame(COST).astype("Float64")
    lacking.iloc[1, 2] = pandas.NA
    with pytest.raises(us.BadInput, match="NaN"):
        us.solve(us.Path(6), cost=lacking)
    with pytest.raises(us.BadInput, match="columns name are not"):
        us.solve(us.Path(6), cost=pandas.DataFrame(COST).assign(name="x"))


def test_fit_takes_the_usual_loader():
    network, relax = us.networks.ItemScorer(4), us.GumbelSinkhorn(us.Constant(1.0))
    X = torch.rand(12, 4, 1, generator=torch.Generator().manual_seed(0))
    for batches in (DataLoader(TensorDataset(X), batch_size=4), X.numpy()):
        fitted = us.fit(network, batches, us.losses.monotone, relax, epochs=1, held_out=X.numpy())
        assert fitted.network is not None
    with pytest.raises(us.BadInput, match="true orders are not shown"):
        us.fit(network, DataLoader(TensorDataset(X, torch.rand(12))), us.losses.monotone, relax, epochs=1)


SPARSE = torch.eye(4).to_sparse()
REFUSED = {
    "solve": lambda: us.solve(us.Path(4), cost=SPARSE),
    "solve, grid": lambda: us.solve(us.Grid(2, 2), cost=(SPARSE, SPARSE)),
    "solve, of scipy": lambda: us.solve(us.Grid(2, 2), cost=csr_array(np.eye(4))),  # paths and cycles take them
    "graph": lambda: us.Graph(SPARSE),
    "sinkhorn": lambda: us.sinkhorn(SPARSE),
    "gumbel_sinkhorn": lambda: us.gumbel_sinkhorn(SPARSE, beta=1.0),
    "assign": lambda: us.assign(SPARSE),
    "predict": lambda: us.predict(us.networks.ItemScorer(4), torch.rand(2, 4, 1).to_sparse()),
    "fit": lambda: us.fit(
        us.networks.ItemScorer(4), [torch.rand(2, 4, 1).to_sparse()], us.losses.monotone, us.GumbelSinkhorn(), epochs=1
    ),
    "Seriator": lambda: us.Seriator().fit(SPARSE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sparse_ones_are_refused_in_a_sentence(name):
    with pytest.raises(us.BadInput, match=r"to_dense\(\)|toarray\(\)"):
        REFUSED[name]()


def test_a_wrong_size_is_told_with_the_number_of_items():
    with pytest.raises(us.BadInput, match="there are 6 items"):
        us.solve(us.Path(5), cost=COST)
    with pytest.raises(us.BadInput, match="there are 6 items"):
        us.solve(us.Grid(2, 2), cost=(COST, COST))
    with pytest.raises(us.BadInput, match="5 positions, but the lists have 4 items"):
        us.predict(us.networks.ItemScorer(5), torch.rand(2, 4, 1))


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_a_sentence(device):
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("it is there")
    with pytest.raises(us.BadInput, match=f"no device '{device}'"):
        us.fit(
            us.networks.ItemScorer(4),
            torch.rand(2, 4, 1),
            us.losses.monotone,
            us.GumbelSinkhorn(),
            epochs=1,
            device=device,
        )
