"""What a session is started with."""

from __future__ import annotations

from perdix.settings.home import Home
from perdix.telemetry.spark_session import spark_conf


def test_a_jvm_on_this_machine_is_started_for_seconds_and_one_of_a_cluster_is_not(tmp_path):
    home = Home(tmp_path).make()
    here, there = (
        spark_conf(master, home)["spark.driver.extraJavaOptions"] for master in ("local[*]", "spark://m:7077")
    )
    assert "-XX:TieredStopAtLevel=1" in here
    assert "log4j2" in here
    assert "TieredStopAtLevel" not in there
