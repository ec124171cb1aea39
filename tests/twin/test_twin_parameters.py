import pytest

from perdix.settings.home import SHIPPED
from perdix.settings.prices import load_prices, price_list_names
from perdix.settings.yaml_files import SettingsError
from perdix.twin.dataflow.parameters import load_dataflow
from perdix.twin.hosts.parameters import load_topology
from perdix.twin.job import JobTwin
from perdix.twin.operators.parameters import load_operator, operator_names
from perdix.twin.parameters import load_demo_twins, load_twin, load_twins
from perdix.twin.regimes import load_regime

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


WORKLOAD = "workload: {shape: sine, peak_per_s: 5}\n"


@pytest.mark.parametrize(
    ("physics", "says"),
    [
        ("workers:\n  capacity_per_s: 0\n", r":2: 'workers\.capacity_per_s'.*greater than or equal to 1.*found 0"),
        ("workers:\n  capacity_per_s: .nan\n", r":2: 'workers\.capacity_per_s'.*finite"),
        ("workers:\n  capacity_per_s: 9\n  contention: -0.1\n", r":3: 'workers\.contention'.*found -0\.1"),
        (
            "workers:\n  capacity_per_s: 9\n  maximum: 12\n  coherency: 0.02\n",
            r":4: 'workers\.coherency'.*more than 7 workers would be slower than .* 7; lower it, or set maximum to 7",
        ),
        ("workers: {capacity_per_s: 9, maximum: 3}\nstart_scale_out: 4\n", r":2: 'start_scale_out'.*maximum.*is 3"),
        ("workers: {capacity_per_s: 9}\ncpu:\n  idle: 1\n", r":3: 'cpu\.idle'.*less than 1"),
        (
            "workers: {capacity_per_s: 9}\nrestart:\n  detection: {median_s: 3601}\n",
            r":3: 'restart\.detection\.median_s'.*less than or equal to 3600",
        ),
        (
            "workers: {capacity_per_s: 9}\nrestart:\n  out: {median_s: -5}\n",
            r":3: 'restart\.out\.median_s'.*greater than or equal to 0.1",
        ),
        ("workers: {capacity_per_s: 9}\nrestart:\n  warm_up_speed: 0\n", r":3: 'restart\.warm_up_speed'"),
        ("workers: {capacity_per_s: 9}\nkeys:\n  count: 0\n", r":3: 'keys\.count'.*greater than or equal to 1"),
        ("workers: {capacity_per_s: 9}\nkeys:\n  keyed: 0.5\n", r":3: 'keys\.keyed'.*give their 'count'"),
        ("workers: {capacity_per_s: 9}\nkeys:\n  groups: 128\n", r":3: 'keys\.groups'.*give their 'count'"),
        ("workers: {capacity_per_s: 9}\nkeys:\n  zipf: 1\n", r":3: 'keys\.zipf'.*give their 'count'"),
        (
            "workers: {capacity_per_s: 9}\nkeys:\n  count: 9\n  zipf: 1\n  towards_quick: 0.3\n",
            r":5: 'keys\.towards_quick'.*dealt without regard to speed",
        ),
        (
            "workers: {capacity_per_s: 9, maximum: 12}\nkeys: {count: 9, groups: 8}\n",
            r":2: 'keys'.*8 key groups are fewer than workers\.maximum, which is 12",
        ),
        ("workers: {capacity_per_s: 9}\nsource:\n  partitions: 0\n", r":3: 'source\.partitions'.*equal to 1"),
        ("workers: {capacity_per_s: 9}\nlatency:\n  base_ms: 0\n", r":3: 'latency\.base_ms'.*greater than 0"),
    ],
)
def test_impossible_physics_is_named_with_line_and_mend(tmp_path, physics, says):
    (tmp_path / "orders.yaml").write_text(physics + WORKLOAD)
    with pytest.raises(SettingsError, match=rf"orders\.yaml{says}"):
        load_twin("orders", tmp_path)


def test_all_that_is_wrong_is_said_at_once(tmp_path):
    (tmp_path / "orders.yaml").write_text("workers:\n  capacity_per_s: -1\n  maximum: 0\n" + WORKLOAD)
    with pytest.raises(SettingsError, match=r"(?s)yaml:2: .*yaml:3: "):
        load_twin("orders", tmp_path)


def test_a_small_job_may_leave_out_where_it_starts(tmp_path):
    (tmp_path / "orders.yaml").write_text("workers: {capacity_per_s: 9, maximum: 2}\n" + WORKLOAD)
    assert JobTwin(load_twin("orders", tmp_path)).scale_out == 2


def test_a_calibrated_job_per_measured_one_and_three_for_the_demo():
    assert set(load_twins()) >= {"wordcount", "ads", "traffic", "tsw", "ysb"}
    assert set(load_demo_twins()) == {"wordcount", "ads", "traffic"}


def test_a_twin_that_is_not_there_is_answered_with_those_that_are(tmp_path):
    (tmp_path / "known.yaml").write_text("")
    with pytest.raises(SettingsError, match=r"there is no twin 'unknown' in .*; did you mean 'known'"):
        load_twin("unknown", tmp_path)


@pytest.mark.parametrize(
    ("folder", "name", "load"),
    [
        ("twins", "ads", load_twin),
        ("operators", "co1", load_operator),
        ("dataflows", "nexmark-q1", load_dataflow),
        ("topologies", "manufacturing", load_topology),
        ("regimes", "in-place", load_regime),
        ("prices", "hetzner-cloud-eu", load_prices),
    ],
)
def test_who_adds_files_keeps_those_that_come_with_perdix(folder, name, load, tmp_path, monkeypatch):
    shipped = load(name)
    (tmp_path / folder).mkdir()
    text = (SHIPPED / folder / f"{name}.yaml").read_text(encoding="utf-8")
    (tmp_path / folder / "ours.yaml").write_text(text.replace(f"name: {name}\n", ""), encoding="utf-8")
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path))
    assert load("ours").model_dump(exclude={"name"}) == shipped.model_dump(exclude={"name"})
    assert load(name) == shipped


def test_own_files_are_listed_beside_those_that_come_with_perdix(tmp_path, monkeypatch):
    shipped = price_list_names(), operator_names(), sorted(load_twins())
    for folder, like in (("prices", "visp-10"), ("operators", "co1"), ("twins", "ads")):
        (tmp_path / folder).mkdir()
        text = (SHIPPED / folder / f"{like}.yaml").read_text(encoding="utf-8")
        (tmp_path / folder / "ours.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path))
    listed = price_list_names(), operator_names(), sorted(load_twins())
    assert listed == tuple(sorted([*names, "ours"]) for names in shipped)


def test_an_own_file_counts_before_the_shipped_one_of_its_name(tmp_path, monkeypatch):
    (tmp_path / "twins").mkdir()
    text = (SHIPPED / "twins" / "ads.yaml").read_text(encoding="utf-8")
    (tmp_path / "twins" / "ads.yaml").write_text(f"{text}\ndemo: false\n", encoding="utf-8")
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path))
    assert set(load_demo_twins()) == {"wordcount", "traffic"}


def test_a_twin_file_of_any_folder_may_name_an_operator_of_the_configuration(tmp_path, monkeypatch):
    """It was only looked for beside the folder of the twin, and among those that come with perdix."""
    (tmp_path / "conf" / "operators").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    operator = (SHIPPED / "operators" / "cmo2.yaml").read_text(encoding="utf-8")
    twin = (SHIPPED / "twins" / "enrich.yaml").read_text(encoding="utf-8")
    (tmp_path / "conf" / "operators" / "ours.yaml").write_text(operator, encoding="utf-8")
    path = tmp_path / "elsewhere" / "orders.yaml"
    path.write_text(twin.replace("operator: cmo2", "operator: ours"), encoding="utf-8")
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path / "conf"))
    assert load_twin(str(path)).workers.sizes == load_twin("enrich").workers.sizes
