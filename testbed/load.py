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

from perdix.cli.output import UserError
from testbed import kafka
from testbed.arrivals import Counts, Load
from testbed.lines import lines
from testbed.settings import Testbed

COLUMNS = "second,records_per_second,due,acknowledged,failed,behind_ms"
POOL = 20_000  # lines made beforehand, sent over and over
TICK_S = 0.01
FLUSH_S = 20.0
LINGER_MS = 100  # a batch per record would cost the broker and the job more than the records themselves


@dataclass
class Second:
    """What was sent for one second of a load."""

    epoch_s: int  # the second
    # due, sent: records
    due: int
    sent: int = 0
    # acknowledged, failed: records that the broker took, or that were given up, since the second before
    acknowledged: int = 0
    failed: int = 0
    behind_s: float = 0.0  # how late its last record was


@dataclass
class Sent:
    """What a load sent in all.

    ``file``: a row per second.
    ``begin_s``, ``end_s``: first and last second played, as epoch seconds; the end is not part of it.
    ``due``, ``sent``, ``acknowledged``, ``failed``: records; those that the broker never answered for count as failed.
    ``behind_s``: the latest that a record was.
    """

    file: Path
    begin_s: int
    end_s: int
    due: int = 0
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    behind_s: float = 0.0


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

    Raises ``UserError`` when the broker does not answer or has no such topic.

    ``file``: CSV, written a row per second as it is played.
    ``every_second``: called after each second.
    ``stop``: ends the load early when set.
    """
    try:
        partitions = kafka.partitions(testbed)
    except KafkaException:
        partitions = 0
    if not partitions:
        raise UserError(f"no topic '{testbed.topic}' at {testbed.bootstrap}; `python -m testbed up` first")
    begin_s = int(time.time()) + 1
    sent = Sent(file, begin_s, begin_s)
    sender = _Sender(testbed, partitions, lines(POOL, load.words_per_record, load.vocabulary, load.skew, load.seed))
    with file.open("w", encoding="utf-8", buffering=1) as rows:
        rows.write(COLUMNS + "\n")
        try:
            for index, due in enumerate(counts):
                second = Second(begin_s + index, int(due))
                sender.play(second)
                second.acknowledged = sender.acknowledged - sent.acknowledged
                second.failed = sender.failed - sent.failed
                _add(sent, second)
                rows.write(
                    f"{second.epoch_s},{second.sent},{second.due},{second.acknowledged},{second.failed},"
                    f"{1000 * second.behind_s:.0f}\n"
                )
                every_second(second)
                if stop is not None and stop.is_set():
                    break
        finally:
            sender.flush()
            sent.acknowledged, sent.failed = sender.acknowledged, sent.sent - sender.acknowledged
    return sent


class _Sender:
    """Sends lines one after the other, evenly over the partitions, and counts what the broker answers."""

    def __init__(self, testbed: Testbed, partitions: int, pool: list[bytes]) -> None:
        self.acknowledged = 0
        self.failed = 0
        self._topic = testbed.topic
        self._partitions = partitions
        self._pool = pool
        self._number = 0
        self._offset_s = time.time() - time.monotonic()  # paced by a clock that nobody sets
        self._producer = Producer(
            {
                "bootstrap.servers": testbed.bootstrap,
                "linger.ms": LINGER_MS,
                "acks": 1,
                "queue.buffering.max.messages": 1_000_000,
                "message.timeout.ms": 30_000,
                "log_level": 2,
            }
        )

    def play(self, second: Second) -> None:
        """Send what is due within one second, and wait for its end; without waiting when that has passed."""
        while True:
            since_s = self._now_s() - second.epoch_s  # negative before the second
            ready = min(second.due, int(since_s * second.due) + 1) if since_s >= 0 else 0
            for record in range(second.sent, ready):
                self._send(1000 * second.epoch_s + 1000 * record // second.due)
            if ready > second.sent:
                second.sent = ready
                second.behind_s = max(second.behind_s, self._now_s() - second.epoch_s - (ready - 1) / second.due)
            self._producer.poll(0)
            left_s = 1.0 - since_s
            if left_s <= 0:
                return
            time.sleep(min(TICK_S, left_s))

    def flush(self) -> None:
        """Wait until the broker has answered for everything, within reason."""
        self._producer.flush(FLUSH_S)

    def _now_s(self) -> float:
        return time.monotonic() + self._offset_s

    def _send(self, due_ms: int) -> None:
        value = self._pool[self._number % len(self._pool)]
        partition = self._number % self._partitions
        self._number += 1
        while True:
            try:
                self._producer.produce(
                    self._topic, value, partition=partition, timestamp=due_ms, on_delivery=self._answered
                )
            except BufferError:  # the broker takes less than is due: that counts as being behind
                self._producer.poll(TICK_S)
            else:
                return

    def _answered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1


def _add(sent: Sent, second: Second) -> None:
    sent.end_s = second.epoch_s + 1
    sent.due += second.due
    sent.sent += second.sent
    sent.acknowledged += second.acknowledged
    sent.failed += second.failed
    sent.behind_s = max(sent.behind_s, second.behind_s)
