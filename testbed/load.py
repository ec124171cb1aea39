"""Plays a load into Kafka, open loop: what is due is sent, however slow the job that reads it.

Each record carries the time at which it was due. When this program itself is late, that shows in the job's latency, as
it does for an overloaded client elsewhere, and is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cli.output import UserError
from testbed import kafka
from testbed.arrivals import Counts, Load
from testbed.lines import lines
from testbed.settings import Testbed

COLUMNS = "second,records_per_second,due,acknowledged,failed,behind_ms"
POOL = 20_000  # lines made beforehand, sent over and over
TICK_S = 0.01
FLUSH_S = 20.0


@dataclass
class Second:
    """What was sent for one second of a load.

    Attributes
    ----------
    epoch_s
        The second.
    due, sent
        Records.
    acknowledged, failed
        Since the second before, by the broker.
    behind_s
        How late its last record was.
    """

    epoch_s: int
    due: int
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    behind_s: float = 0.0


@dataclass
class Sent:
    """What a load sent in all.

    Attributes
    ----------
    file
        A row per second.
    begin_s, end_s
        First and last second played, as epoch seconds; the end is not part of it.
    due, sent, acknowledged, failed
        Records.
    behind_s
        The latest that a record was.
    """

    file: Path
    begin_s: int
    end_s: int
    due: int = 0
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    behind_s: float = 0.0


@dataclass
class _Delivered:
    """Counts what the broker answers."""

    acknowledged: int = 0
    failed: int = 0
    why: str = ""

    def __call__(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1
            self.why = error.str()


def play(
    load: Load,
    counts: Counts,
    testbed: Testbed,
    file: Path,
    *,
    every_second: Callable[[Second], None] = lambda _: None,
    stop: Event | None = None,
) -> Sent:
    """Send ``counts[i]`` records in second ``i``, evenly over the second and the partitions.

    Parameters
    ----------
    file
        CSV, written a row per second as it is played.
    every_second
        Called after each second.
    stop
        Ends the load early when set.

    Raises
    ------
    ~cli.output.UserError
        When the broker does not answer or has no such topic.
    """
    try:
        partitions = kafka.partitions(testbed)
    except KafkaException:
        partitions = 0
    if not partitions:
        raise UserError(f"no topic '{testbed.topic}' at {testbed.bootstrap}; `python -m testbed up` first")
    pool = lines(POOL, load.words_per_record, load.vocabulary, load.skew, load.seed)
    delivered = _Delivered()
    producer = _producer(testbed)
    begin_s = int(time.time()) + 1
    offset_s = time.time() - time.monotonic()  # paced by a clock that nobody sets
    sent = Sent(file, begin_s, begin_s)
    with file.open("w", encoding="utf-8", buffering=1) as rows:
        rows.write(COLUMNS + "\n")
        try:
            for index, due in enumerate(counts):
                second = Second(begin_s + index, int(due))
                _play_second(second, producer, delivered, pool, sent, testbed.topic, partitions, offset_s)
                second.acknowledged = delivered.acknowledged - sent.acknowledged
                second.failed = delivered.failed - sent.failed
                _add(sent, second)
                rows.write(
                    f"{second.epoch_s},{second.sent},{second.due},{second.acknowledged},{second.failed},"
                    f"{1000 * second.behind_s:.0f}\n"
                )
                every_second(second)
                if stop is not None and stop.is_set():
                    break
        finally:
            producer.flush(FLUSH_S)
            sent.acknowledged, sent.failed = delivered.acknowledged, delivered.failed
    if sent.sent and not sent.acknowledged:
        raise UserError(
            f"the broker at {testbed.bootstrap} took none of {sent.sent} records: {delivered.why or 'no answer'}"
        )
    return sent


def _play_second(
    second: Second,
    producer: Producer,
    delivered: _Delivered,
    pool: list[bytes],
    before: Sent,
    topic: str,
    partitions: int,
    offset_s: float,
) -> None:
    """Send what is due within one second, and wait for its end; without waiting when that has passed."""
    while True:
        now_s = time.monotonic() + offset_s - second.epoch_s  # since the second began; negative before
        ready = min(second.due, int(now_s * second.due) + 1) if now_s >= 0 else 0
        for record in range(second.sent, ready):
            number = before.sent + record
            due_ms = 1000 * second.epoch_s + 1000 * record // second.due
            _produce(producer, topic, pool[number % len(pool)], number % partitions, due_ms, delivered)
        if ready > second.sent:
            second.sent = ready
            last_due_s = (ready - 1) / second.due
            second.behind_s = max(second.behind_s, time.monotonic() + offset_s - second.epoch_s - last_due_s)
        producer.poll(0)
        left_s = 1.0 - now_s
        if left_s <= 0:
            return
        time.sleep(min(TICK_S, left_s))


def _produce(producer: Producer, topic: str, value: bytes, partition: int, due_ms: int, delivered: _Delivered) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition, timestamp=due_ms, on_delivery=delivered)
        except BufferError:  # the broker takes less than is due: that counts as being behind
            producer.poll(TICK_S)
        else:
            return


def _producer(testbed: Testbed) -> Producer:
    return Producer(
        {
            "bootstrap.servers": testbed.bootstrap,
            "linger.ms": 5,
            "acks": 1,
            "queue.buffering.max.messages": 1_000_000,
            "message.timeout.ms": 30_000,
            "log_level": 2,
        }
    )


def _add(sent: Sent, second: Second) -> None:
    sent.end_s = second.epoch_s + 1
    sent.due += second.due
    sent.sent += second.sent
    sent.acknowledged += second.acknowledged
    sent.failed += second.failed
    sent.behind_s = max(sent.behind_s, second.behind_s)
