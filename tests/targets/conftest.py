import pytest

from twin.job import JobTwin
from twin.parameters import TwinParameters

START_S = 1_700_000_000


@pytest.fixture
def twin() -> JobTwin:
    parameters = TwinParameters.model_validate(
        {
            "name": "orders",
            "workers": {"capacity_per_s": 1_000, "maximum": 6},
            "workload": {"shape": "constant", "peak_per_s": 1_500.0},
            "start_scale_out": 2,
        }
    )
    job = JobTwin(parameters, 3, start_s=START_S)
    job.step(600)
    return job
