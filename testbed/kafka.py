"""Kafka: how the broker is started, and the topic of the job."""

from __future__ import annotations

import base64
import subprocess
import uuid
from concurrent.futures import TimeoutError as NotInTime

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from perdix.cli.output import UserError
from testbed import build
from testbed.layout import Layout
from testbed.settings import HOST, Testbed

TIMEOUT_S = 15.0


def format_storage(layout: Layout) -> None:
    """Make the folder of the broker's log segments its own; does nothing when it already is.

    Raises ``UserError``, with what Kafka's tool says.
    """
    if (layout.kafka_data / "meta.properties").exists():
        return
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    configured = str(layout.conf / "kafka.properties")
    # With "=": the id may begin with a dash.
    tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", configured]
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = ["java", *quick, _log(layout), "-cp", f"{build.KAFKA}/*", *tool]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"Kafka cannot use {layout.kafka_data}: {(done.stdout + done.stderr).strip()[-800:]}")


def command(layout: Layout, testbed: Testbed) -> list[str]:
    """Return the command of the broker, with the JMX exporter as its agent."""
    agent = next(iter(sorted(build.JMX.glob("*.jar"))))
    shown = f"-javaagent:{agent}={HOST}:{testbed.ports.kafka_metrics}:{layout.conf / 'jmx.yaml'}"
    jvm = ["-XX:+UseSerialGC", "-Xms128m", "-Xmx512m", shown, _log(layout)]
    return ["java", *jvm, "-cp", f"{build.KAFKA}/*", "kafka.Kafka", str(layout.conf / "kafka.properties")]


def answers(testbed: Testbed) -> bool:
    """Say whether the broker answers."""
    try:
        return bool(_client(testbed).list_topics(timeout=1.0).brokers)
    except KafkaException:
        return False


def create_topic(testbed: Testbed) -> None:
    """Create the job's topic; does nothing when it is there with as many partitions.

    Raises ``UserError`` when it is there with another number of partitions, or the broker refuses.
    """
    client = _client(testbed)
    topic = NewTopic(testbed.topic, num_partitions=testbed.topic_partitions, replication_factor=1)
    try:
        client.create_topics([topic])[testbed.topic].result(TIMEOUT_S)
    except (KafkaException, NotInTime) as error:
        reason = error.args[0] if error.args else error
        if not (isinstance(reason, KafkaError) and reason.code() == KafkaError.TOPIC_ALREADY_EXISTS):
            raise UserError(f"Kafka does not create the topic '{testbed.topic}': {reason}") from None
        found = partitions(testbed)
        if found != testbed.topic_partitions:
            raise UserError(
                f"the topic '{testbed.topic}' has {found} partitions, {testbed.topic_partitions} are asked for; "
                "`python -m testbed down` first"
            ) from None


def partitions(testbed: Testbed) -> int:
    """Return how many partitions the topic has; 0 when there is no such topic."""
    topics = _client(testbed).list_topics(testbed.topic, timeout=TIMEOUT_S).topics
    return len(topics[testbed.topic].partitions) if testbed.topic in topics else 0


def _client(testbed: Testbed) -> AdminClient:
    # What it says about a broker that is not up yet would only stand beside our own words.
    return AdminClient({"bootstrap.servers": testbed.bootstrap, "log_level": 0, "socket.timeout.ms": 2_000})


def _log(layout: Layout) -> str:
    return f"-Dlog4j2.configurationFile={(layout.conf / 'log4j.properties').as_uri()}"
