"""Runs on a real Ray cluster of two nodes, one of which is killed in the middle."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from unshuffle.paper.cluster import OnRay
from unshuffle.paper.executor import not_yet_computed
from unshuffle.paper.run import Means, Outcome, Planned
from unshuffle.paper.store import Place, Store

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@dataclass(frozen=True)
class Slow:
    """Notes that it began, and where; takes a while on its first try."""

    seed: int
    folder: str
    seconds: float
    ending: str = "good"

    @property
    def task(self) -> str:
        return "slow"

    def settings(self) -> Slow:
        return self

    def compute(self, means: Means) -> Outcome:
        node = ray.get_runtime_context().get_node_id()
        Path(self.folder, f"{self.seed}-{time.time_ns()}").write_text(node)
        if self.ending == "error":
            raise RuntimeError("this one fails")
        time.sleep(self.seconds)
        return Outcome({"tau": float(self.seed)})


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = made.add_node(num_cpus=1)
    made.connect()
    yield made, second
    ray.shutdown()
    made.shutdown()


def test_a_killed_node_loses_nothing_and_nothing_counts_twice(cluster, tmp_path):
    made, victim = cluster
    began = tmp_path / "began"
    began.mkdir()
    runs = [Slow(seed, str(began), 1.0, "error" if seed == 3 else "good") for seed in range(5)]
    planned = [Planned(run, Place("sorting", "", "global", "5", run.seed, "smoke")) for run in runs]

    def kill_when_at_work() -> None:
        while not any(f.read_text() == victim.node_id for f in began.iterdir()):
            time.sleep(0.05)
        made.remove_node(victim, allow_graceful=False)

    killer = threading.Thread(target=kill_when_at_work, daemon=True)
    killer.start()
    store, told = Store(tmp_path / "store"), Counter()
    undone = OnRay()(planned, store, lambda one, result: told.update([one.run.seed]))
    assert undone == 0
    assert told == Counter(range(5))
    results = {result.seed: result for result in store}
    assert sorted(results) == [0, 1, 2, 3, 4]
    assert results[3].error == "RuntimeError: this one fails"
    assert all(results[s].metrics == {"tau": float(s)} for s in (0, 1, 2, 4))
    starts = Counter(int(f.name.split("-")[0]) for f in began.iterdir())
    assert sum(starts.values()) > 5  # what the lost node had begun was begun again
    assert not_yet_computed(planned, store, retry=False) == []
