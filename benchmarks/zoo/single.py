"""One job of the zoo on its own: what it is, what each policy comes to, and its course as a picture."""

from __future__ import annotations

from benchmarks.zoo.campaign import Campaign
from benchmarks.zoo.contenders import BEST_STATIC
from benchmarks.zoo.jobs import draw
from benchmarks.zoo.playing import figures, run
from benchmarks.zoo.traces import NoTracesError
from perdix.cli.output import complaints, console, styled
from perdix.cli.replay.job_text import progress_bar
from perdix.replay.canvas import to_png
from perdix.replay.course_picture import course_picture


def play_single(campaign: Campaign) -> int:
    """Play a campaign's only job under each policy and the best fixed size, print and draw it. Returns an exit code."""
    (number,) = campaign.jobs
    seed, hours, folder = campaign.seed, campaign.hours, campaign.folder
    try:
        job = draw(seed, number, hours, data=campaign.data, regime=campaign.regime)
    except NoTracesError as error:
        complaints.print(f"job {number} of seed {seed} is one of a real trace, and there are {error}", highlight=False)
        return 2
    console.print(styled(f"Job {number} of seed {seed}", "bold"), f"({job.kind}): {job.about}", highlight=False)
    folder.mkdir(parents=True, exist_ok=True)
    names = (BEST_STATIC, *campaign.policies)
    with progress_bar(len(names) * 3600.0 * hours) as tell:
        for k, policy in enumerate(names):

            def on_progress(share: float, k: int = k) -> None:
                tell((k + share) * 3600.0 * hours, k)

            played, beside = run(job, policy, on_progress)
            row = figures(job, played) | beside
            size = "" if row["size"] is None else f" ({row['size']})"
            path = folder / f"{campaign.name}-job-{number}-{policy.replace(':', '-')}.png"
            path.write_bytes(to_png(course_picture(played, objective_ms=job.objectives.latency_p95_ms)))
            console.print(
                f"{policy}{size}: {row['average_workers']:.2f} workers on average, at most {row['peak_workers']}; "
                f"{row['rescales']} rescales; late in {row['late_share']:.2%} of the time, objective "
                f"{'held' if row['held'] else 'not held'}; {path}",
                highlight=False,
                soft_wrap=True,
            )
    return 0
