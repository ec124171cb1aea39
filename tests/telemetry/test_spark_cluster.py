"""A cluster that runs nothing is an error that says why, and never a silence."""

from __future__ import annotations

import os
import socket
import threading
import time

import pytest
from pyspark.sql import SparkSession

from perdix.assets.resources import Spark, Workspace
from perdix.settings.home import Home
from perdix.telemetry.spark.cluster import ClusterError, cause_of, is_local, require_master, require_tasks
from perdix.telemetry.spark.session import prepare_environment, spark_session


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*]", "local[2, 3]", "local-cluster[2,1,1024]"])
def test_masters_on_this_machine(master):
    assert is_local(master)


@pytest.mark.parametrize("master", ["spark://localhost:7077", "spark://local:7077", "k8s://https://local", "yarn"])
def test_masters_elsewhere(master):
    assert not is_local(master)


@pytest.mark.parametrize(("master", "told"), [("local[*]", "127.0.0.1"), ("yarn", None)])
def test_only_a_driver_whose_executors_are_here_says_that_it_is_at_loopback(tmp_path, monkeypatch, master, told):
    monkeypatch.setattr(os, "environ", {k: v for k, v in os.environ.items() if k != "SPARK_LOCAL_IP"})
    prepare_environment(Home(tmp_path).make(), master)
    assert os.environ.get("SPARK_LOCAL_IP") == told


@pytest.mark.parametrize("others", ["", ",127.0.0.1:2"])
def test_a_master_that_does_not_answer_is_named_at_once_and_not_after_minutes(tmp_path, monkeypatch, others):
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(
        ClusterError, match=r"Spark at spark://127\.0\.0\.1:1.* does not answer: .*refused.*; start that"
    ):
        spark_session(Home(tmp_path).make(), f"spark://127.0.0.1:1{others}")


def test_nor_does_dagster_wait_for_such_a_master(tmp_path, monkeypatch):
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    (tmp_path / "perdix.yaml").write_text("spark: {master: 'spark://127.0.0.1:1'}\n")
    workspace = Workspace(home=str(tmp_path), conf=str(tmp_path))
    with pytest.raises(ClusterError, match="does not answer"):
        Spark(workspace=workspace).session()


@pytest.mark.parametrize("host", ["spark..cluster", "m" * 64], ids=["two dots", "64 letters"])
def test_a_master_whose_name_no_host_can_have_is_named_as_one_that_does_not_answer(host):
    with pytest.raises(ClusterError, match=r"does not answer: .*label.*; start that cluster, or correct 'spark'"):
        require_master(f"spark://{host}:7077")


def test_one_of_several_masters_that_answers_is_enough_and_other_managers_are_not_asked():
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_master(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")
    for master in ("local[*]", "k8s://https://127.0.0.1:1", "yarn", "spark://nonsense"):
        require_master(master)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        pytest.param(
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            "  File \"x.py\", line 3, in read\n    raise\nFileNotFoundError: [Errno 2] No such file: '/a'\n\n"
            "\tat org.apache.spark.x(X.java:1)\nCaused by: java.io.EOFException",
            "FileNotFoundError: [Errno 2] No such file: '/a'",
            id="raised in Python",
        ),
        pytest.param(
            "An error occurred while calling o102.count.\n: org.apache.spark.SparkException: Job aborted due to stage "
            "failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) "
            "(10.0.0.7 executor 3): org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).\n"
            "\tat org.apache\nCaused by: java.io.EOFException\n\t... 23 more",
            "SparkException: Python worker exited unexpectedly (crashed).",
            id="crashed",
        ),
        pytest.param(
            "o1.load\n: a.B: c\n\tat x\nCaused by: java.io.IOException: No space left on device\n\t... 2 more",
            "IOException: No space left on device",
            id="in the JVM",
        ),
        pytest.param(
            "An error occurred while calling None.org.SparkSession.\n: java.lang.IllegalStateException: Stopped.\n"
            "\tat java.base/java.lang.Thread.run(Thread.java:840)\n",
            "IllegalStateException: Stopped.",
            id="no cause beyond it",
        ),
        pytest.param("", "ValueError", id="nothing said"),
    ],
)
def test_the_telling_line_of_a_failure_is_found(text, cause):
    assert cause_of(ValueError(text)) == cause


@pytest.mark.spark
def test_a_session_that_runs_goes_on_while_its_master_is_away(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    assert spark_session(Home(tmp_path).make(), "spark://127.0.0.1:1").sparkContext is spark.sparkContext


@pytest.mark.spark
class TestFirstTask:
    @pytest.fixture
    def busy(self, spark):
        """Every core of the session is taken by another job."""
        context = spark.sparkContext

        def sleep(batches):
            time.sleep(60)
            return batches

        def occupy():
            context.setJobGroup("busy", "busy", interruptOnCancel=True)
            try:
                spark.range(0, 2, 1, 2).mapInArrow(sleep, "id long").count()
            except Exception:
                ended.set()

        ended = threading.Event()
        threading.Thread(target=occupy, daemon=True).start()
        tracker = context.statusTracker()
        while not tracker.getActiveStageIds():
            time.sleep(0.01)
        time.sleep(0.5)
        yield
        context.cancelJobGroup("busy")
        assert ended.wait(30)

    def test_a_cluster_that_runs_it_is_fine(self, spark):
        require_tasks(spark)

    @pytest.mark.usefixtures("busy")
    def test_a_cluster_that_has_no_core_for_it_is_an_error(self, spark):
        began_s = time.monotonic()
        with pytest.raises(ClusterError, match=r"local\[2\] ran no task within 0.5 s"):
            require_tasks(spark, within_s=0.5)
        assert time.monotonic() - began_s < 10
