"""The code of a registered fleet model (MLflow "models from code"): one Parquet file in, answers per job out.

For people and servers outside of perdix. The control loop reads the same Parquet file directly and never loads this.
MLflow runs this file as a script and copies the packages it imports into each version.
"""

import json
from typing import Any

import mlflow.models
import mlflow.pyfunc
import numpy as np
import pandas as pd

FORECAST = "perdix-forecast"
LATENCY = "perdix-latency"
PERFORMANCE = "perdix-performance"


class FleetModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]  # mlflow carries no types for it
    """Answers for every job of the fleet table.

    Forecast: ``(job, horizon_s)`` -> one row per step with ``at_s`` (epoch seconds at which the step begins) and rates
    in records/s; parameter ``step_s``. Capacity: ``(job, scale_out)`` -> one row each, records/s with a 90 % interval.
    Latency: ``(job, scale_out, rate_per_s)`` -> one row each, ms (p95) and whether that is normal.
    Performance: ``(job, cpu_cores, memory_mb)`` -> one row each, records/s of one worker, and whether such a size lies
    outside of what was sampled.
    """

    def load_context(self, context: Any) -> None:
        """Read the fleet table."""
        fleet = pd.read_parquet(context.artifacts["fleet"], columns=["job", "state"])
        self._states = dict(zip(fleet["job"], fleet["state"], strict=True))
        self._shared = {name: json.loads(text) for name, text in self._states.items() if name.startswith("*/")}
        self._name = context.model_config["name"]

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:  # noqa: ARG002  MLflow's signature
        """Return the answers, in the order of the questions. Raises ``ValueError`` naming unknown jobs."""
        unknown = sorted(set(model_input["job"]) - set(self._states))
        if unknown:
            raise ValueError(f"not in this fleet: {', '.join(map(str, unknown[:10]))}")
        if self._name == LATENCY:
            return self._latencies(model_input)
        if self._name == PERFORMANCE:
            return self._performances(model_input)
        if self._name != FORECAST:
            asked = zip(model_input["job"], model_input["scale_out"], strict=True)
            return pd.DataFrame([self._capacity(job, int(scale_out)) for job, scale_out in asked])
        step_s = float((params or {}).get("step_s", 10.0))
        wanted = zip(model_input["job"], model_input["horizon_s"], strict=True)
        return pd.concat([self._forecast(job, float(h), step_s) for job, h in wanted], ignore_index=True)

    def _forecast(self, job: str, horizon_s: float, step_s: float) -> pd.DataFrame:
        from perdix.models.forecasting.forecaster import forecaster_from_state  # noqa: PLC0415  on the path once loaded

        known = forecaster_from_state(json.loads(self._states[job])).given(self._shared)
        forecast = known.forecast(horizon_s, step_s)
        return pd.DataFrame(
            {
                "job": job,
                "at_s": forecast.origin_s + step_s * np.arange(len(forecast.mean)),
                "mean_per_s": forecast.mean,
                **{f"p{round(100 * p)}_per_s": forecast.quantiles[p] for p in (0.5, 0.9, 0.95)},
            }
        )

    def _latencies(self, asked: pd.DataFrame) -> pd.DataFrame:
        from perdix.models.latency.state import latency_from_state  # noqa: PLC0415

        answered = asked[["job", "scale_out", "rate_per_s"]].assign(latency_ms=np.nan, normal=False)
        for job in asked["job"].unique():
            rows = (asked["job"] == job).to_numpy()
            known = latency_from_state(json.loads(self._states[job]))
            found = known.predict(asked.loc[rows, "scale_out"], asked.loc[rows, "rate_per_s"])
            answered.loc[rows, "latency_ms"], answered.loc[rows, "normal"] = found.latency_ms, found.normal
        return answered

    def _performances(self, asked: pd.DataFrame) -> pd.DataFrame:
        from perdix.models.performance.fitted import FittedPerformance  # noqa: PLC0415

        answered = asked[["job", "cpu_cores", "memory_mb"]].assign(per_s=np.nan, extrapolated=True)
        for job in asked["job"].unique():
            rows = (asked["job"] == job).to_numpy()
            known = FittedPerformance.from_state(json.loads(self._states[job]))
            found = known.predict(asked.loc[rows, "cpu_cores"], asked.loc[rows, "memory_mb"])
            answered.loc[rows, "per_s"], answered.loc[rows, "extrapolated"] = found.per_s, found.extrapolated
        return answered

    def _capacity(self, job: str, scale_out: int) -> dict[str, Any]:
        from perdix.models.capacity.scale_outs import ScaleOuts  # noqa: PLC0415

        estimate = ScaleOuts.from_state(json.loads(self._states[job])).capacity(scale_out)
        return {
            "job": job,
            "scale_out": scale_out,
            "per_s": estimate.per_s,
            "low_per_s": estimate.low_per_s,
            "high_per_s": estimate.high_per_s,
            "seen": estimate.seen,
        }


mlflow.models.set_model(FleetModel())
