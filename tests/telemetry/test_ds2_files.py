"""The original program's files: what is read, what is set aside and why, and which windows belong together."""

from __future__ import annotations

import gzip
import math
import os
import tarfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.telemetry.ds2.files import Epoch, RatesLog, read_rates, read_source_rates
from perdix.telemetry.ds2.lines import Ds2FileError, lines_of
from perdix.telemetry.ds2.topology import LoggedOperator, read_topology

HEADER = "# operator_id,operator_instance_id,total_number_of_operator_instances,epoch_timestamp,a,b,c,d\n"


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def shape(log: RatesLog) -> list[tuple[int, list[str]]]:
    return [(epoch.number, sorted(f"{rate.operator}{rate.instance}" for rate in epoch.rates)) for epoch in log.epochs]


# topologies


def test_a_line_is_an_edge(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.csv",
        "# from, to",
        "src,Source: A -> B,1,map,Map,2",
        "map,Map,2,sink,Sink,3",
        "",
        "src,Source: A -> B,1,map,Map,2",
    )
    found = read_topology(path)
    assert found.operators == (
        LoggedOperator("src", "Source: A -> B", 1),
        LoggedOperator("map", "Map", 2),
        LoggedOperator("sink", "Sink", 3),
    )
    assert found.edges == (("src", "map"), ("map", "sink")), "an edge told twice is one edge"
    assert found.set_aside == ()


def test_a_name_with_commas_is_known_by_its_id(tmp_path: Path) -> None:
    window = "Window(Tumbling(3000), Reduce, 4)"
    path = write(tmp_path / "t.csv", f"a,a,1,{window},{window},2", f"{window},{window},2,b,b,1")
    found = read_topology(path)
    assert found.edges[1][1] == "b"
    assert found.operators[1].name.replace(" ", "") == window.replace(" ", "")
    quoted = write(tmp_path / "q.csv", f'a,a,1,w,"{window}",2')
    assert read_topology(quoted).operators[1].name == window


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("a,a,one,b,b,1", "is not an edge"),
        ("a,a,0,b,b,1", "is not an edge"),
        ("a,a,1", "is not an edge"),
        ("a,x,y,1,b,c,d,2", "is not an edge"),
        ("map,Map,3,b,b,1", "operator 'map' is Map on 2 in an earlier line"),
    ],
)
def test_a_line_that_is_no_edge_is_set_aside_and_the_rest_is_read(tmp_path: Path, line: str, why: str) -> None:
    found = read_topology(write(tmp_path / "t.csv", "# header", "s,s,1,map,Map,2", line, "map,Map,2,k,k,1"))
    assert len(found.edges) == 2
    (aside,) = found.set_aside
    assert (aside.file, aside.line) == ("t.csv", 3)
    assert why in str(aside)


def test_a_topology_without_edges_is_an_error_with_its_mend(tmp_path: Path) -> None:
    with pytest.raises(Ds2FileError, match=r"t\.csv: no edge could be read \(t\.csv:1: .*write operator id"):
        read_topology(write(tmp_path / "t.csv", "nothing"))
    with pytest.raises(Ds2FileError, match="cannot be read"):
        read_topology(tmp_path / "absent.csv")


@pytest.mark.shared
def test_the_topologies_of_the_original_program(shared_data: Path) -> None:
    flink = read_topology(shared_data / "ds2/topology/flink_topology.csv")
    assert [operator.instances for operator in flink.operators] == [6, 16, 4, 16, 16]
    heron = read_topology(shared_data / "ds2/topology/heron_topology.csv")
    assert heron.edges == (("0", "1"), ("1", "2"))
    timely = read_topology(shared_data / "ds2/topology/timely_topology.log")
    names = {operator.id: operator.name for operator in timely.operators}
    assert {operator.instances for operator in timely.operators} == {4}
    assert ("Filter", "Join") in [(names[up], names[down]) for up, down in timely.edges]
    assert len(timely.edges) == 8
    assert timely.set_aside == ()


def test_a_timely_line_that_is_cut_is_set_aside(tmp_path: Path) -> None:
    start = "replayed raw: 0 (15, TimelySetup { index: 0 }, "
    found = read_topology(
        write(
            tmp_path / "t.log",
            f'{start}Operates(OperatesEvent {{ id: 0, addr: [0, 0, 1], name: "Input" }}))',
            f'{start}Operates(OperatesEvent {{ id: 2, addr: [0, 0, 2], name: "Map" }}))',
            f"{start}Channels(ChannelsEvent {{ id: 1, scope_addr: [0, 0], source: (1, 0), target: (2, 0) }}))",
            f"{start}Channels(ChannelsEvent {{ id: 3, scope_addr: [0, 0], source: (2, 0), target: (9, 0) }}))",
            f"{start}Channels(ChannelsEvent {{ id: 4, sco",
            f"{start}Schedule(ScheduleEvent {{ id: 4 }}))",
        )
    )
    assert found.edges == (("0", "2"),)
    assert sorted(str(row).split(": ", 1)[0] for row in found.set_aside) == ["t.log:4", "t.log:5"]


# source rates


def test_source_rates_are_per_instance_and_may_be_as_observed(tmp_path: Path) -> None:
    path = write(tmp_path / "s.csv", "# name,rate", "Source: A, B,70000", "C,-1", "D,fast", "C,5", "E,-3", "F,inf")
    found = read_source_rates(path)
    assert found.per_instance == {"Source: A, B": 70_000.0, "C": None}
    assert [row.line for row in found.set_aside] == [4, 5, 6, 7]
    with pytest.raises(Ds2FileError, match="write a line 'source,100000'"):
        read_source_rates(write(tmp_path / "none.csv", "source_operator_name,output_rate_per_instance (records/s)"))


# rates


def test_a_log_without_epochs_is_grouped_by_when_windows_began(tmp_path: Path) -> None:
    """Windows of 10 s; b's begin later each time, and its second is missing."""
    rows = [f"a,1,1,{k * 10_000_000_000},1,2,3,4" for k in range(4)]
    rows += [f"b,1,1,{k * 10_400_000_000 + 2_000_000_000},1,2,3,4" for k in (0, 2, 3)]
    found = read_rates(write(tmp_path / "rates.log", HEADER.strip(), *rows))
    assert shape(found) == [(0, ["a1", "b1"]), (1, ["a1"]), (2, ["a1", "b1"]), (3, ["a1", "b1"])]
    assert found.set_aside == ()


def test_a_single_window_needs_no_clock(tmp_path: Path) -> None:
    found = read_rates(write(tmp_path / "rates.log", "a,1,1,5,1,2,3,4", "b,1,1,99999999999,1,2,3,4"))
    assert shape(found) == [(0, ["a1", "b1"])]


def test_the_epoch_column_counts(tmp_path: Path) -> None:
    header = "epoch,operator_id,instance_id,instances,window_start_ns,true_in,true_out,observed_in,observed_output_rate"
    found = read_rates(
        write(tmp_path / "r.csv", header, "3,a,1,1,0,1,2,3,4", "7,a,1,1,10,1,2,3,4", "x,a,1,1,10,1,2,3,4")
    )
    assert shape(found) == [(3, ["a1"]), (7, ["a1"])]
    assert str(found.set_aside[0]) == "r.csv:4: 'x' is not the number of an epoch; write a whole one"
    bare = read_rates(write(tmp_path / "bare.csv", "3,a,1,1,0,1,2,3,4"))
    assert shape(bare) == [(3, ["a1"])]


def test_commas_in_a_name_are_of_the_name(tmp_path: Path) -> None:
    found = read_rates(write(tmp_path / "r.log", HEADER.strip(), "Window(3000, Reduce),1,1,0,1,2,3,4"))
    assert found.epochs[0].rates[0].operator.replace(" ", "") == "Window(3000,Reduce)"


def test_a_folder_or_an_archive_holds_a_log_per_instance_and_epoch(tmp_path: Path) -> None:
    folder = tmp_path / "rates"
    for epoch in (0, 1, 10):
        for instance in (1, 2):
            start = epoch * 10**10 + instance
            write(folder / f"a -> b-{instance}-{epoch}.log", HEADER.strip(), f"a -> b,{instance},2,{start},1,2,3,4")
    expected = [(epoch, ["a -> b1", "a -> b2"]) for epoch in (0, 1, 10)]
    assert shape(read_rates(folder)) == expected
    for name in ("r.tar", "r.tar.gz"):
        with tarfile.open(tmp_path / name, "w:gz" if name.endswith("gz") else "w") as archive:
            archive.add(folder, "rates")
        assert shape(read_rates(tmp_path / name)) == expected
    packed = tmp_path / "one.log.gz"
    packed.write_bytes(gzip.compress(b"a,1,1,0,1,2,3,4\n"))
    assert shape(read_rates(packed)) == [(0, ["a1"])]


def test_numbers_that_drifted_or_began_anew_give_way_to_time(tmp_path: Path) -> None:
    """Instance 2 was idle in the second window and wrote no file, so its counter is one behind."""
    rows = [f"a,1,2,{k * 10**10},1,2,3,4" for k in range(4)]
    for epoch, row in enumerate(rows):
        write(tmp_path / "r" / f"a-1-{epoch}.log", row)
    for epoch, window in enumerate((0, 2, 3)):
        write(tmp_path / "r" / f"a-2-{epoch}.log", f"a,2,2,{window * 10**10 + 5},1,2,3,4")
    found = read_rates(tmp_path / "r")
    assert shape(found) == [(0, ["a1", "a2"]), (1, ["a1"]), (2, ["a1", "a2"]), (3, ["a1", "a2"])]
    assert "grouped by when they began" in found.remarks[0]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("a,1,1,0,1,2,3", "7 columns of 8"),
        (",1,1,0,1,2,3,4", "has no name"),
        ("a,1,none,0,1,2,3,4", "'none' is not a number of instances"),
        ("a,1,0,0,1,2,3,4", "'0' is not a number of instances"),
        ("a,1,99999999999999999999,0,1,2,3,4", "is not a number of instances; write a whole one from 1 to 10000"),
        ("a,1,1,now,1,2,3,4", "'now' is not the start of a window"),
        ("a,1,1,0,1,2,3,", "'' is not a rate"),
        ("a,1,1,0,1,-2,3,4", "a rate of -2 records/s cannot be"),
        ("a,1,1,0,1,2,3,4", "instance 1 of 'a' is reported twice in epoch 0"),
    ],
)
def test_a_bad_line_is_set_aside_with_its_place_and_the_rest_is_read(tmp_path: Path, line: str, why: str) -> None:
    found = read_rates(write(tmp_path / "r.log", HEADER.strip(), "a,1,1,0,1,2,3,4", line, "b,1,1,0,1,2,3,4"))
    assert shape(found) == [(0, ["a1", "b1"])]
    (aside,) = found.set_aside
    assert str(aside).startswith("r.log:3: ")
    assert why in aside.reason


def test_what_the_program_writes_of_idle_instances_is_read(tmp_path: Path) -> None:
    found = read_rates(write(tmp_path / "r.log", "a,1,1,0,NaN,inf,0,0"))
    (rates,) = found.epochs[0].rates
    assert math.isnan(rates.true_processing_per_s)
    assert math.isinf(rates.true_output_per_s)


def test_instances_of_an_operator_agree_on_how_many_they_are(tmp_path: Path) -> None:
    found = read_rates(write(tmp_path / "r.log", "a,1,3,0,1,2,3,4", "a,2,3,0,1,2,3,4", "a,3,2,0,1,2,3,4"))
    assert {rate.instances for rate in found.epochs[0].rates} == {3}


def test_what_cannot_be_read_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Ds2FileError, match="no such file or folder"):
        read_rates(tmp_path / "absent")
    with pytest.raises(Ds2FileError, match=r"r\.log: no rates could be read \(r\.log:1: 1 columns of 8"):
        read_rates(write(tmp_path / "r.log", "hello"))
    broken = tmp_path / "folder" / "a-1-0.log"
    write(tmp_path / "folder" / "b-1-0.log", "b,1,1,0,1,2,3,4")
    broken.write_bytes(b"\x1f\x8b\x08 not gzip")
    assert "cannot be read" in str(read_rates(tmp_path / "folder").set_aside[0])


def test_an_archive_that_is_cut_gives_what_came_before(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / "r" / f"{name}-1-0.log", f"{name},1,1,0,1,2,3,4")
    with tarfile.open(tmp_path / "r.tar", "w") as archive:
        archive.add(tmp_path / "r" / "a-1-0.log", "a-1-0.log")
        archive.add(tmp_path / "r" / "b-1-0.log", "b-1-0.log")
    data = (tmp_path / "r.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(data[: 512 * 2 + 700])
    found = read_rates(tmp_path / "cut.tar")
    assert shape(found) == [(0, ["a1"])]
    assert "damaged" in str(found.set_aside[0])


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text(alphabet='abc,1.-NaNe \t"#\x00é', max_size=40), max_size=12))
def test_no_text_breaks_the_readers(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("any") / "any.log"
    path.write_text("\n".join(lines), encoding="utf-8")
    for read in (read_rates, read_topology, read_source_rates):
        with suppress(Ds2FileError):
            read(path)


@pytest.mark.shared
def test_the_example_files_of_the_original_program_tell_the_same(shared_data: Path) -> None:
    def told(epoch: Epoch) -> set[tuple[object, ...]]:
        return {tuple(vars(rate).values()) for rate in epoch.rates}

    table = read_rates(shared_data / "ds2/flink_wordcount_rates.csv")
    archive = read_rates(shared_data / "ds2/flink_wordcount_rates_originals.tar.gz")
    assert [epoch.number for epoch in table.epochs] == list(range(11))
    assert [told(epoch) for epoch in table.epochs] == [told(epoch) for epoch in archive.epochs]
    assert (table.set_aside, table.remarks, archive.set_aside) == ((), (), ())
    offline = read_rates(shared_data / "ds2/offline/flink_rates.log")
    assert [len(epoch.rates) for epoch in offline.epochs] == [4, 4]
    sources = read_source_rates(shared_data / "ds2/source_rates/source-rates.csv")
    assert list(sources.per_instance.values()) == [70_000, 30_000]


@pytest.mark.parametrize("packed", [False, True])
def test_a_pipe_is_read_whole(tmp_path: Path, packed: bool) -> None:
    lines = "".join(f"source,{k:05},2000,{k + 1}\n" for k in range(2_000)).encode()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(lines) if packed else lines), daemon=True)
    writer.start()
    assert len(lines_of(pipe)) == 2_000
    writer.join(5.0)
