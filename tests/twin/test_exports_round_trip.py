"""What the twin writes, the readers of ``perdix.telemetry.exports`` read: the same samples under canonical names."""

import numpy as np
import pytest

from benchmarks.export_forms import ALL_FORMS, write_exports
from perdix.telemetry.exports.naming import Hint, Naming
from perdix.telemetry.exports.reading import ExportReading
from perdix.telemetry.metrics import CANONICAL
from perdix.telemetry.queries import load_series_map
from perdix.twin.emission import Scraping, emit
from perdix.twin.job import JobTwin

START_S = 1_700_000_000


@pytest.fixture
def twin(parameters):
    twin = JobTwin(parameters(), 3, start_s=START_S)
    twin.step(600)
    twin.rescale(3, "a")
    twin.step(600)
    return twin


def samples(series, to_second):
    found = {}
    for entry in series:
        times = entry.times_ms // 1000 * 1000 if to_second else entry.times_ms
        key = (entry.metric, entry.worker)
        before = found.get(key, (np.zeros(0, dtype=np.int64), np.zeros(0)))
        found[key] = (np.concatenate((before[0], times)), np.concatenate((before[1], entry.values)))
    return found


@pytest.mark.parametrize("names", ["canonical", "flink"])
@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("form", sorted(ALL_FORMS))
def test_round_trip(twin, tmp_path, form, gzipped, names):
    emitted = emit(twin, Scraping(15.0, jitter_s=0.3, loss=0.05), names=names)
    series_map = load_series_map()
    read = []
    for path in write_exports(emitted, tmp_path, form, "orders", gzipped=gzipped):
        reading = ExportReading(path, Naming(series_map, Hint(), path.stem))
        series = list(reading.series())
        assert reading.quarantined == []
        read += series
    assert sum(len(entry.series) for entry in read) == sum(len(entry) for entry in emitted)
    # Flink's scale-out is the number of workers that report; this twin tells nothing of its memory.
    told = set(CANONICAL) - ({"scale_out", "memory_ratio"} if names == "flink" else {"memory_ratio"})
    assert {entry.series.metric for entry in read if entry.mapped} == told

    expected = []
    for entry in emitted:
        mapped = series_map.canonical(entry.metric, entry.labels)
        if mapped is not None:
            expected.append(type(entry)(mapped.metric, mapped.worker, entry.times_ms, entry.values * mapped.scale))
    to_second = form == "grafana-csv"
    wanted, found = samples(expected, to_second), samples([r.series for r in read if r.mapped], to_second)
    assert set(found) == set(wanted)
    for key, (times_ms, values) in wanted.items():
        order, other = np.lexsort((values, times_ms)), np.lexsort((found[key][1], found[key][0]))
        np.testing.assert_array_equal(found[key][0][other], times_ms[order], err_msg=str(key))
        np.testing.assert_array_equal(found[key][1][other], values[order], err_msg=str(key))
