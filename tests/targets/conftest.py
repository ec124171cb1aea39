import pytest

from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters

START_S = 1_700_000_000
SMALL = {"cpu_cores": 0.6, "memory_mb": 512, "price_per_h": 0.03, "per_s": 600.0}
LARGE = {"cpu_cores": 2.4, "memory_mb": 1024, "price_per_h": 0.11, "per_s": 1_800.0}


@pytest.fixture
def twin() -> JobTwin:
    parameters = TwinParameters.model_validate(
        {
            "name": "orders",
            "workers": {"capacity_per_s": 1_000, "maximum": 6, "sizes": {"small": SMALL, "large": LARGE}},
            "workload": {"shape": "constant", "peak_per_s": 1_500.0},
            "start_scale_out": 2,
        }
    )
    job = JobTwin(parameters, 3, start_s=START_S)
    job.step(600)
    return job
