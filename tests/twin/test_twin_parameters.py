import pytest

from settings.yaml_files import SettingsError
from twin.job import JobTwin
from twin.parameters import load_twin

YAML = "workers: {capacity_per_s: 100}\nworkload: {shape: csv, file: trace.csv, noise: 0, slow_noise: 0}\n"


def test_a_trace_is_found_beside_its_twin(tmp_path, monkeypatch):
    (tmp_path / "orders.yaml").write_text(YAML)
    (tmp_path / "trace.csv").write_text("second,tuples_per_second\n0,30\n1,60\n")
    monkeypatch.chdir("/")
    twin = JobTwin(load_twin("orders", tmp_path), scale_out=2)
    twin.step(4)
    assert twin.history.column("arrived").tolist() == [30, 60, 30, 60]


def test_a_misspelt_key_is_named_with_its_line(tmp_path):
    (tmp_path / "orders.yaml").write_text("workers:\n  capacity: 5\nworkload: {shape: sine, peak_per_s: 5}\n")
    with pytest.raises(SettingsError, match=r"orders\.yaml:2: unknown key 'workers\.capacity'"):
        load_twin("orders", tmp_path)
