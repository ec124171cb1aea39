"""The Spark session: quiet, UTC, with this interpreter as its Python, on a Java that was found.

Configuration is a plain dict, so that Dagster's ``LazyPySparkResource`` and a cluster's submit command can take it;
what only environment variables can say is set by :func:`prepare_environment` before the JVM starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from perdix.settings.home import PROJECT, Home, is_checkout
from perdix.telemetry.java import Java, find_java
from perdix.telemetry.spark.cluster import ClusterError, cause_of, is_local, require_master, require_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG4J = """# Written by perdix: errors only; why a task failed reaches Python as an exception.
# At 'warn' and filtered below, because Spark announces on stderr that it changes any other root level.
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.filter.threshold.type = ThresholdFilter
appender.console.filter.threshold.level = error
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark %d{HH:mm:ss} %p %c{1}: %m%n
# The driver raises these to Python as exceptions, where they are reported once, with the file's name.
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = off
"""


# For a JVM that lives for seconds and only hands work to Python: half of its start was compiling for long runs. What
# it computes itself takes up to twice as long then (benchmarks/validation.py, on Spark), so not for any session.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def spark_conf(master: str, home: Home, *, short_lived: bool = False) -> dict[str, str]:
    """Return the session's configuration for ``master`` (``local[*]``, ``spark://...``, ``k8s://...``).

    The settings that only make sense on one machine (loopback, the small shuffle) are left out for a cluster.

    ``short_lived``: whether the session ends within a minute: a local one then starts in half of the processor's time.
    """
    conf = {
        "spark.master": master,
        "spark.app.name": "perdix",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        # A day, a job or a file name stays text: "007" is not 7.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.structuredLogging.enabled": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_log_settings(home).absolute().as_uri()}",
    }
    if is_checkout():  # a wheel is where Python's workers look anyway
        conf["spark.executorEnv.PYTHONPATH"] = str(PROJECT)
    if is_local(master):
        conf |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "4",
            "spark.driver.memory": "2g",
            "spark.local.dir": str(home.root / "spark"),
            "spark.sql.warehouse.dir": str(home.root / "spark" / "warehouse"),
        }
        if short_lived:
            conf["spark.driver.extraJavaOptions"] += f" {_SHORT_LIVED}"
    return conf


def prepare_environment(home: Home, master: str) -> Java:
    """Set what the JVM and Spark's Python workers read from the environment, and return the Java in use.

    Workers run ``sys.executable``; without it they take the first ``python3`` on the path, which lacks our packages.

    Raises ``NoJava`` when there is no Java that Spark can run on, and ``ClusterError`` where none of the standalone
    masters answers that a session is to be started with.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - importing pyspark costs half a second that others need not pay

    if SparkSession.getActiveSession() is None:  # one that runs goes on while its master is away
        require_master(master)
    java = find_java(home.java)
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):  # executors on another host could not reach a driver that says it is at loopback
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", _SHORT_LIVED)  # of the JVM that only composes the other's command
    return java


def spark_session(
    home: Home, master: str = "local[*]", extra: Mapping[str, str] | None = None, *, short_lived: bool = False
) -> SparkSession:
    """Return the process's Spark session, starting it when there is none (about ten seconds).

    Raises ``NoJava`` when there is no Java that Spark can run on; ``ClusterError`` when Spark does not start, or
    ``master`` is a cluster that does not answer, or runs no task within a minute.

    ``extra``: more ``spark.*`` keys; they win over the defaults.
    ``short_lived``: as in :func:`spark_conf`.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - importing pyspark costs half a second that others need not pay

    prepare_environment(home, master)
    builder = SparkSession.builder
    for key, value in {**spark_conf(master, home, short_lived=short_lived), **(extra or {})}.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        why = f"Spark at {master} does not start: {cause_of(error).rstrip('.')}"
        raise ClusterError(why, "check 'spark' in perdix.yaml") from error
    if not is_local(master):
        require_tasks(session)
    return session


def _log_settings(home: Home) -> Path:
    path = home.root / "spark" / "log4j2.properties"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != _LOG4J:
        path.write_text(_LOG4J, encoding="utf-8")
    return path
