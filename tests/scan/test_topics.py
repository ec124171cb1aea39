"""Topics: told by their rates, and only where one fits and no other does."""

from __future__ import annotations

import numpy as np

from perdix.scan.topics import matching_topic

HOURS = np.arange(48.0)
ORDERS = 1_000.0 + 500.0 * np.sin(HOURS / 4.0)
CLICKS = 9_000.0 + 100.0 * np.cos(HOURS / 7.0)


def test_the_topic_whose_rate_was_consumed_is_the_jobs():
    assert matching_topic(0.99 * ORDERS, {"orders": ORDERS, "clicks": CLICKS}) == "orders"


def test_a_job_that_reads_two_topics_has_none_of_them():
    assert matching_topic(ORDERS + CLICKS, {"orders": ORDERS, "clicks": CLICKS}) is None


def test_two_topics_that_fit_as_well_are_not_guessed_between():
    assert matching_topic(ORDERS, {"orders": ORDERS, "orders-copy": 1.001 * ORDERS}) is None


def test_a_few_hours_tell_nothing():
    short = np.where(HOURS < 3, ORDERS, np.nan)
    assert matching_topic(short, {"orders": ORDERS}) is None
    assert matching_topic(ORDERS, {}) is None
