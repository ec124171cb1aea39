"""Many replays on one dataflow side by side: every operator-level policy with every seed."""

from dataclasses import dataclass

from perdix.replay.operators.case import DataflowCase, DataflowContender
from perdix.replay.operators.outcome import DataflowPlayed, scalable
from perdix.replay.operators.run import play
from perdix.replay.side_by_side import Ended, OnProgress, play_all
from perdix.settings.yaml_files import SettingsError
from perdix.twin.dataflow.parameters import DataflowParameters


@dataclass(frozen=True)
class DataflowSetup:
    """What is to be replayed."""

    contenders: tuple[DataflowContender, ...]
    parameters: DataflowParameters
    seeds: tuple[int, ...] = (1,)
    seconds: int | None = None  # length of each replay; ``None``: that of the dataflow's file

    def __post_init__(self) -> None:
        if self.length_s <= max((case.interval_s for case in self.cases()), default=0):  # none is made at the end
            raise SettingsError(f"{self.length_s} s do not cover one look of a policy; give more hours")
        if not scalable(self.parameters):
            raise SettingsError(
                f"'{self.parameters.name}': no operator may be scaled; set scalable: true of one in its file"
            )
        for contender in self.contenders:
            try:
                self.parameters.with_start(contender.options.get("parallelism", {}))
            except ValueError as error:
                raise SettingsError(f"policy '{contender.label}': {error}") from None

    @property
    def length_s(self) -> int:
        """Length of each replay."""
        return self.parameters.duration_s if self.seconds is None else self.seconds

    @property
    def simulated_s(self) -> float:
        """Sum of all seconds that are replayed."""
        return float(len(self.cases()) * self.length_s)

    def cases(self) -> tuple[DataflowCase, ...]:
        """Return a case per seed and contender; for one seed all meet the same luck."""
        return tuple(
            DataflowCase(contender, self.parameters, seed, self.length_s)
            for seed in self.seeds
            for contender in self.contenders
        )


DataflowCampaign = Ended[DataflowSetup, DataflowPlayed]


def run_dataflow_campaign(
    setup: DataflowSetup, *, processes: int | None = None, on_progress: OnProgress | None = None
) -> DataflowCampaign:
    """Play every contender with every seed; as :func:`~perdix.replay.side_by_side.play_all`."""
    return play_all(setup, play, lambda case: case.contender.label, processes=processes, on_progress=on_progress)
