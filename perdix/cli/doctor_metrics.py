"""The metrics of every job, asked side by side: what ``perdix doctor`` says of each Prometheus and each job."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from perdix.cli.findings import BETWEEN, Finding, fixes, in_sentence
from perdix.cli.twin_jobs import is_twin_job
from perdix.control.calls import Call, Calls
from perdix.control.checkup.facts import JobCheckup, QueryFact, Verdict
from perdix.control.checkup.job import check_job
from perdix.control.clock import WallClock
from perdix.control.job_files import JobFiles
from perdix.settings.home import Home, conf_folder
from perdix.settings.stream_job import StreamJob
from perdix.settings.yaml_files import SettingsError, place_in

PER_SERVER = 4  # jobs of one server that are asked at once
AT_ONCE = 32
NAMED = 5  # jobs that are named where a server does not answer


def metrics_of_jobs(home: Home, files: JobFiles) -> Iterator[Finding]:
    """Yield a finding per Prometheus and per job, in the order of their names.

    A server that does not answer is one finding, and is not asked again by each of its jobs.
    """
    live = {name: job for name, job in sorted(files.jobs.items()) if job.prometheus is not None}
    for job in (files.jobs[name] for name in sorted(files.jobs) if name not in live):
        acts = job.mode == "act"
        none = f"none configured: {'mode: act, and never scaled' if acts else 'trained on exports only'}"
        fix = f"add 'prometheus' with its url and selector ({_path(home, job.name)})"
        yield Finding(f"metrics of {job.name}", ok=not acts, found=none, fix=fix)
    checkups = _checked(list(live.values()))
    judged = [found for found in checkups.values() if isinstance(found, JobCheckup)]
    for server in sorted({checkup.server for checkup in judged}):
        yield from _of_server(home, server, [checkup for checkup in judged if checkup.server == server])
    for name, found in checkups.items():
        if isinstance(found, Exception):
            said = f"{type(found).__name__}: {found}"
            yield Finding(f"metrics of {name}", ok=False, found=said, fix="see the message")
        elif found.answers:
            yield _of_job(home, found)


@dataclass
class _Asked:
    """Servers that failed while they were asked."""

    failed: dict[str, JobCheckup] = field(default_factory=dict)

    def check(self, job: StreamJob, now_s: float) -> JobCheckup | Exception:
        assert job.prometheus is not None
        server = job.prometheus.asked_as
        earlier = self.failed.get(server)
        if earlier is not None:
            return replace(
                earlier, job=job.name, queries=tuple(replace(query, job=job.name) for query in earlier.queries)
            )
        try:
            found = check_job(job, now_s)
        except Exception as error:  # a defect that one job meets must not end the checks of others
            return error
        if not found.answers:
            self.failed[server] = found
        return found


def _checked(jobs: Sequence[StreamJob]) -> Mapping[str, JobCheckup | Exception]:
    """Return job -> what was found, in the order of ``jobs``."""
    asked, now_s = _Asked(), WallClock().now_s()

    def call(job: StreamJob) -> Call[tuple[str, JobCheckup | Exception]]:
        server = "" if job.prometheus is None else job.prometheus.asked_as
        return Call(server, lambda: asked.check(job, now_s), lambda answer: [(job.name, answer)])

    found = dict(Calls(AT_ONCE, PER_SERVER).run(call(job) for job in jobs))
    return {job.name: found[job.name] for job in jobs}


def _of_server(home: Home, server: str, checkups: Sequence[JobCheckup]) -> Iterator[Finding]:
    """Yield what keeps jobs from a server, each fault once, and that it answers others."""
    faults: dict[str, list[JobCheckup]] = {}
    for checkup in checkups:
        faults.setdefault("" if checkup.answers else checkup.problem, []).append(checkup)
    for problem, alike in sorted(faults.items(), reverse=True):
        check, names = f"prometheus {server}", _named([checkup.job for checkup in alike])
        queries = tuple(fact for checkup in alike for fact in checkup.queries)
        if not problem:
            yield Finding(check, ok=True, found=f"answers, asked for {names}")
        elif all(is_twin_job(_path(home, checkup.job)) for checkup in alike):
            gone = f"the simulator of the demo is not running (its jobs: {names})"
            yield Finding(check, ok=True, found=gone, better="perdix dev starts one that goes on", queries=queries)
        else:
            of_these = f"{check}, asked for {names}" if len(faults) > 1 else check
            fix = _placed(home, alike[0].job, alike[0].fix)
            yield Finding(of_these, ok=False, found=f"{problem}; needed by {names}", fix=fix, queries=queries)


def _of_job(home: Home, checkup: JobCheckup) -> Finding:
    facts, check = checkup.queries, f"metrics of {checkup.job}"
    broken = [fact for fact in facts if not fact.ok]
    doubts = [fact for fact in facts if fact.verdict is Verdict.DOUBTFUL]
    doubt = BETWEEN.join(f"{doubt.metric}: {doubt.found}; {doubt.fix}" for doubt in doubts)
    if checkup.ok:
        return Finding(check, ok=True, found=_counted(facts), doubt=doubt, queries=facts)
    found = BETWEEN.join(filter(None, (checkup.problem, in_sentence(broken))))
    named = [*filter(None, (checkup.fix,)), *fixes(broken)]
    fix = "\n".join(_placed(home, checkup.job, seen) for seen in named)
    return Finding(check, ok=False, found=found, fix=fix, doubt=doubt, queries=facts)


def _counted(facts: Sequence[QueryFact]) -> str:
    lacking = [fact.metric for fact in facts if fact.verdict not in {Verdict.OK, Verdict.DOUBTFUL}]
    well = f"{len(facts) - len(lacking)} of {len(facts)} queries find what they should"
    return f"{well}; perdix can do without {', '.join(lacking)}" if lacking else f"{len(facts)} queries, all well"


def _placed(home: Home, job: str, fix: str) -> str:
    """Return a fix with the line of the job file that it is about, if it is about one."""
    key = re.search(r"\bprometheus\.(\w+)", fix)
    if key is None:
        return fix
    try:
        return f"{fix} ({place_in(_path(home, job), 'prometheus', key[1])})"
    except SettingsError:  # it has been taken away meanwhile
        return fix


def _path(home: Home, job: str) -> Path:
    """Return the file that counts of a job: the operator's, else perdix' own."""
    operators = conf_folder() / "jobs" / f"{job}.yaml"
    return operators if operators.exists() else home.jobs / f"{job}.yaml"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
