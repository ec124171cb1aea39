"""What ships in ``conf/examples`` is what the committed command writes, and small."""

from __future__ import annotations

import gzip
from pathlib import Path

from benchmarks.examples import JOB, write_examples
from perdix.settings.home import PROJECT
from perdix.settings.stream_job import load_stream_job

SHIPPED = PROJECT / "conf" / "examples"


def content(path: Path) -> bytes:
    """Return what a file holds; how it is packed may differ from one zlib to the next."""
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def test_the_shipped_examples_are_written_from_their_seed(tmp_path: Path) -> None:
    written = [path.relative_to(tmp_path) for path in write_examples(tmp_path, seed=7)]
    by_hand = {Path(f"{JOB}.yaml")}
    assert {path.relative_to(SHIPPED) for path in SHIPPED.rglob("*") if path.is_file()} - by_hand == set(written)
    for path in written:
        assert content(SHIPPED / path) == content(tmp_path / path), path


def test_nothing_else_in_the_folder_is_touched(tmp_path: Path) -> None:
    own = tmp_path / "exports" / "mine.csv"
    own.parent.mkdir()
    own.write_text("time,value\n")
    write_examples(tmp_path, seed=7)
    write_examples(tmp_path, seed=8)
    assert own.read_text() == "time,value\n"


def test_they_are_small_of_two_formats_and_of_one_job_that_is_only_advised() -> None:
    files = [path for path in SHIPPED.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 300_000
    assert {path.suffix for path in (SHIPPED / "exports").iterdir()} == {".csv", ".gz"}
    job = load_stream_job(SHIPPED / f"{JOB}.yaml")
    assert (job.name, job.mode) == (JOB, "advise")
