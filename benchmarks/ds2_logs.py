"""What a dataflow's twin did, in the formats of the original DS2: rates log, topology, source rates.

So that what reads the logs of a patched Flink can be tested against a truth that is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from perdix.models.dataflow.graph import Dataflow
from perdix.models.dataflow.rates import InstanceWindow
from perdix.twin.dataflow.job import DataflowTwin

RATES = (
    "# operator_id,operator_instance_id,total_number_of_operator_instances,epoch_timestamp,"
    "true_processing_rate,true_output_rate,observed_processing_rate,observed_output_rate"
)
TOPOLOGY = (
    "# operator_id1,operator_name1,total_number_of_operator_instances1,"
    "operator_id2,operator_name2,total_number_of_operator_instances2"
)
SOURCE_RATES = "# source_operator_name,output_rate_per_instance (records/s)"
NS_PER_S = 1_000_000_000


def rates_lines(windows: Mapping[str, InstanceWindow], epoch_s: float) -> Iterator[str]:
    """Yield a line per instance that worked; ``epoch_s`` is when its window began.

    An instance that did nothing has no true rates and writes nothing, as with the original's instrumentation.
    """
    for name, window in windows.items():
        for k in range(window.instances):
            useful_s = float(window.useful_s[k])
            if useful_s <= 0:
                continue
            processed, produced = float(window.processed[k]), float(window.produced[k])
            rates = (processed / useful_s, produced / useful_s, processed / window.window_s, produced / window.window_s)
            said = ",".join(repr(rate) for rate in rates)
            yield f"{name},{k + 1},{window.instances},{round(epoch_s * NS_PER_S)},{said}"


def topology_lines(graph: Dataflow, parallelism: Mapping[str, int]) -> Iterator[str]:
    """Yield a line per edge."""
    for up, down in graph.edges:
        yield f"{up},{up},{parallelism[up]},{down},{down},{parallelism[down]}"


def source_rate_lines(source_per_s: Mapping[str, float], parallelism: Mapping[str, int]) -> Iterator[str]:
    """Yield a line per source; rates are those of one instance."""
    for name, per_s in source_per_s.items():
        yield f"{name},{per_s / parallelism[name]!r}"


def write_ds2_logs(twin: DataflowTwin, folder: Path, *, epochs: int, interval_s: int = 10) -> Mapping[str, Path]:
    """Let the twin run for some epochs and write what the original's instrumentation would.

    Epochs in which it stands still leave nothing behind. Sources need a ``cost_us``: without one they have no useful
    time, hence no true rates.

    Returns ``rates``, ``topology`` and ``source_rates`` -> file. The latter two are of the end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rates = [RATES]
    for _ in range(epochs):
        since_s = twin.now_s
        twin.step(interval_s)
        rates += rates_lines(twin.windows(since_s), max(since_s, twin.started_s))
    texts = {
        "rates": ("flink_rates.log", rates),
        "topology": ("flink_topology.csv", [TOPOLOGY, *topology_lines(twin.graph, twin.parallelism)]),
        "source_rates": ("source_rates.csv", [SOURCE_RATES, *source_rate_lines(twin.target_per_s(), twin.parallelism)]),
    }
    for name, lines in texts.values():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {kind: folder / name for kind, (name, _) in texts.items()}
