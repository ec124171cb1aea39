"""The figures of a run's page are those of the jobs that have them."""

import numpy as np
import pandas as pd
import pytest

from perdix.models.registry.publishing import aggregate


def test_the_aggregate_counts_what_is_known() -> None:
    per_job = pd.DataFrame(
        {
            "job": ["a", "b", "c", "d"],
            "wape": [0.1, 0.2, 0.4, None],
            "fit_s": [1.0, 2.0, 3.0, np.inf],
            "beats_naive": [True, False, True, None],
            "error": [None, "", None, "too short"],
            "never": [None, None, None, None],
        }
    )
    found = aggregate(per_job)
    assert found == pytest.approx(
        {
            "jobs": 4,
            "jobs_failed": 1,
            "wape_median": 0.2,
            "wape_p90": 0.36,
            "fit_s_median": 2.0,
            "fit_s_p90": 2.8,
            "fit_s_total": 6.0,
            "beats_naive_share": 2 / 3,
        }
    )


def test_the_first_metric_stays_the_first_because_the_compare_page_plots_it() -> None:
    per_job = pd.DataFrame({"job": ["a"], "wape": [0.1], "fit_s": [1.0], "coverage_p90": [0.9]})
    assert next(iter(aggregate(per_job))) == "wape_median"
