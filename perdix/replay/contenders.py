"""From what a user writes (``hpa-80``, ``daedalus:grace_s=120``) to the policies that take part."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from perdix.models.latency.boosting import PublishedLatency
from perdix.policies import phoebe
from perdix.policies.build import build_policy
from perdix.policies.daedalus_options import AS_PRINTED
from perdix.replay.case import BEST_STATIC, TICK_INTERVAL_S, Contender
from perdix.replay.labels import LABEL, options_of, split_labels, whole
from perdix.settings.nearest_name import meant
from perdix.settings.stream_job import Bounds, PolicySettings
from perdix.settings.yaml_files import SettingsError

HPA_INTERVAL_S = 15  # how often Kubernetes' HPA looks (--horizontal-pod-autoscaler-sync-period)
FLINK_INTERVAL_S = 10  # autoscaler.standalone.control-loop.interval
DS2_INTERVAL_S = 10  # the policy interval of the paper's runs on Flink
TICK, GRACE = "tick_s", "job_grace_s"  # options of the contender, not of its policy
BY_MEASUREMENT = ("ds2-global", "flink-autoscaler", "hpa", "static")  # look at no forecast and at no capacity


@dataclass(frozen=True)
class Form:
    """One way to write a contender."""

    example: str  # as shown to users
    pattern: str  # what the words before the first colon must match; its groups are what ``options`` makes options of
    policy: str
    options: Callable[[Mapping[str, str]], dict[str, Any]] = lambda _: {}
    tick_interval_s: int = TICK_INTERVAL_S
    grace_s: float | None = None
    latency_family: str | None = None


FORMS: Sequence[Form] = (
    Form("perdix", "perdix", "perdix"),
    Form("daedalus", "daedalus", "daedalus"),
    Form("daedalus-paper", "daedalus-paper", "daedalus", lambda _: dict(AS_PRINTED)),
    Form("hpa-80", r"hpa-(?P<percent>\d{1,3})", "hpa", lambda said: {"target_cpu": _share(said)}, HPA_INTERVAL_S, 0.0),
    Form(
        "hpa-80-paper",
        r"hpa-(?P<percent>\d{1,3})-paper",
        "hpa",
        lambda said: {"target_cpu": _share(said), "stabilisation": "paper"},
        HPA_INTERVAL_S,
        0.0,
    ),
    Form("flink-autoscaler", "flink-autoscaler", "flink-autoscaler", tick_interval_s=FLINK_INTERVAL_S, grace_s=0.0),
    Form(
        "flink-autoscaler-tuned",
        "flink-autoscaler-tuned",
        "flink-autoscaler",
        lambda _: {"preset": "tuned"},
        FLINK_INTERVAL_S,
        0.0,
    ),
    Form("ds2-global", "ds2-global", "ds2-global", tick_interval_s=DS2_INTERVAL_S, grace_s=0.0),
    Form("phoebe", "phoebe", "phoebe"),
    Form(
        "phoebe-paper",
        "phoebe-paper",
        "phoebe",
        lambda _: dict(phoebe.AS_PRINTED),
        latency_family=PublishedLatency.family,
    ),
    Form("twres", "twres", "twres"),
    Form("visp", "visp", "visp"),
    Form("visp-forecast", "visp-forecast", "visp", lambda _: {"forecast": True}),
    Form("qescalor", "qescalor", "qescalor"),
    Form("cba", "cba", "cba"),
    Form("cba-small", r"cba-(?P<size>[A-Za-z0-9][A-Za-z0-9._-]*)", "cba", lambda said: {"size": said["size"]}),
    Form("static-12", r"static-(?P<workers>\d{1,5})", "static", lambda said: {"scale_out": int(said["workers"])}),
)
EXAMPLES = [form.example for form in FORMS]


def contenders(text: str, bounds: Bounds | None = None) -> tuple[Contender, ...]:
    """Return the contenders of a comma-separated list, for example ``daedalus,hpa-80,static-12:tick_s=30``.

    After a colon each may have options of its policy, ``tick_s``, the seconds between its ticks, and ``job_grace_s``,
    seconds after a rescale in which the control loop lets it not rescale (0 for those with guards of their own).

    Raises ``SettingsError``, naming the contender and the nearest that is known, a label that is there twice, or a
    static one that lies outside the bounds (it would run another number of workers than it is called by).
    """
    return tuple(contender(label, bounds) for label in split_labels(text, EXAMPLES))


def contender(label: str, bounds: Bounds | None = None) -> Contender:
    """Return the contender that ``label`` describes; raises as :func:`contenders`."""
    words, *pairs = label.split(":")
    form, said = _form(words)
    options = {**form.options(said), **options_of(label, pairs)}
    tick_s = whole(label, options, TICK, "seconds", 3_600) or form.tick_interval_s
    grace_s = options.pop(GRACE, form.grace_s)
    number = grace_s is None or (isinstance(grace_s, int | float) and not isinstance(grace_s, bool))
    if not number or not 0 <= (grace_s or 0) <= 86_400:
        raise SettingsError(f"policy '{label}': {GRACE} must be seconds from 0 to 86400, found {grace_s!r}")
    if not LABEL.fullmatch(label):
        raise SettingsError(f"policy '{label}': letters, digits and . _ : = + - only, because files are named by it")
    held_s = None if grace_s is None else float(grace_s)
    return Contender(label, _settings(label, form.policy, options, bounds), tick_s, held_s, form.latency_family)


def needs_beliefs(contender: Contender) -> bool:
    """Return whether its policy looks at anything that is learned of the job, and not at what is measured alone."""
    return contender.settings.name not in BY_MEASUREMENT


def _form(words: str) -> tuple[Form, Mapping[str, str]]:
    for form in FORMS:
        match = re.fullmatch(form.pattern, words)
        if match:
            return form, match.groupdict()
    if words == BEST_STATIC:
        raise SettingsError(f"policy '{words}': takes part in every replay without being named; leave it out")
    hint = meant(words, EXAMPLES, f"known: {', '.join(EXAMPLES)}", cutoff=0.5)
    raise SettingsError(f"unknown policy '{words}'; {hint}")


def _settings(label: str, policy: str, options: dict[str, Any], bounds: Bounds | None) -> PolicySettings:
    try:
        build_policy(policy, options, (TICK, GRACE))
        settings = PolicySettings(name=policy, options=options)
    except (SettingsError, ValidationError) as error:
        raise SettingsError(f"policy '{label}': {error}") from None
    scale_out = int(options.get("scale_out", 1))
    if policy == "static" and bounds is not None and not bounds.minimum <= scale_out <= bounds.maximum:
        raise SettingsError(
            f"policy '{label}': {scale_out} workers are outside the bounds {bounds.minimum}..{bounds.maximum}; "
            "widen them or take another number"
        )
    return settings


def _share(said: Mapping[str, str]) -> float:
    return int(said["percent"]) / 100.0
