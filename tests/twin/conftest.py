from collections.abc import Callable

import pytest

from perdix.twin.parameters import TwinParameters

START_S = 1_700_000_000


@pytest.fixture
def parameters() -> Callable[..., TwinParameters]:
    def build(**changes) -> TwinParameters:
        base = {
            "name": "orders",
            "workers": {"capacity_per_s": 1_000, "maximum": 6, "capacity_noise": 0.0, "speed_spread": 0.0},
            "keys": {"skew_spread": 0.1, "wobble": 0.0},
            "restart": {"warm_up_s": 0},
            "latency": {"base_ms": 100.0, "noise": 0.0},
            "workload": {"shape": "constant", "peak_per_s": 1_500.0, "noise": 0.0, "slow_noise": 0.0},
            "start_scale_out": 2,
        }
        for key, value in changes.items():
            base[key] = {**base[key], **value} if isinstance(value, dict) and key in base else value
        return TwinParameters.model_validate(base)

    return build
