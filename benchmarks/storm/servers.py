"""Whose server a request reaches, what that does with it, and what is judged when it arrives."""

from __future__ import annotations

import json
from dataclasses import dataclass

from benchmarks.storm.answers import GARBAGE, absurd, refusal
from benchmarks.storm.boundaries import Boundaries
from benchmarks.storm.controller import Controller
from benchmarks.storm.deployment import Deployment
from benchmarks.storm.faces import Answer, answer
from benchmarks.storm.flink_face import is_of_checkpoints
from benchmarks.storm.flow import FLOW, Flow, Mix, of_flow
from benchmarks.storm.network import RefusedError, Request, Response, SilenceError
from benchmarks.storm.oracles.watch import Watch
from benchmarks.storm.prometheus import PrometheusServer
from benchmarks.storm.weather import Weather
from perdix.control.state.store import StateStore

LEAST_LEASE_S = 10.0  # that a lease lasts beyond what a request may take: who is later than that may be overtaken


@dataclass(frozen=True)
class Servers:
    """All that the controllers of an episode send requests to."""

    weather: Weather
    boundaries: Boundaries
    deployments: dict[str, Deployment]
    flow: Flow | None
    prometheus: PrometheusServer
    watch: Watch
    auditor: StateStore

    def exchange(self, request: Request) -> Response:
        """Return the answer to a request of the controller whose step goes on."""
        boundaries, controller = self.boundaries, self.boundaries.running[-1]
        kind, _, job = request.host.partition(".")
        if kind == "prometheus":
            boundaries.cross(controller, may_pause=True)
            found = self.prometheus.answer(request)
            boundaries.cross(controller, may_pause=True)
            return found
        asked = self.flow if job == FLOW and self.flow is not None else self.deployments[job]
        before_s, controller.job, controller.version = self.weather.now_s, job, asked.version
        boundaries.cross(controller, may_pause=True)
        if request.method == "PUT":
            boundaries.sleeps(controller, "asleep while sending")
        controller.late_s = self.weather.now_s - before_s
        response = self._served(controller, kind, asked, request)
        boundaries.cross(controller, may_pause=True)
        return response

    def _served(self, controller: Controller, kind: str, deployment: Deployment | Flow, request: Request) -> Response:
        job, active, passes = deployment.place.job.name, self.weather.active, self.boundaries.passes
        if active("refused", job) is not None:
            raise RefusedError
        if active("lost request", job) is not None:
            passes(request.timeout_s)
            raise SilenceError
        slow = active("slow", job)
        if slow is not None:
            passes(slow.amount)
        status = active("status", job)
        if status is not None:
            return refusal(kind, int(status.amount))
        if isinstance(deployment, Flow):
            code, document = self._of_operators(controller, deployment, request)
        else:
            code, document = self._of_workers(controller, kind, deployment, request)
        if active("lost answer", job) is not None:
            passes(request.timeout_s)
            raise SilenceError
        return self._worded(job, request, Response.of(code, document), document)

    def _of_operators(self, controller: Controller, flow: Flow, request: Request) -> Answer:
        now_s, asked = self.weather.now_s, list[Mix]()
        body = json.loads(request.body) if request.body else None
        sent = request.method, request.path, request.query, body
        found = of_flow(flow, flow.reported(now_s), sent, asked.append)
        for wanted in asked:
            if controller.late_s > LEAST_LEASE_S:
                flow.ask(now_s, wanted, "", "")
                continue
            decision_id = self.watch.asked_operators(flow, controller.jobs[0], wanted, controller.name, self.auditor)
            flow.ask(now_s, wanted, controller.name, decision_id)
        return found

    def _of_workers(self, controller: Controller, kind: str, deployment: Deployment, request: Request) -> Answer:
        now_s, job, asked = self.weather.now_s, deployment.place.job.name, list[tuple[int, str]]()
        state = deployment.reported(now_s)
        code, document = answer(
            kind,
            deployment,
            state,
            (request.method, request.path, request.body),
            lambda scale_out, key: asked.append((scale_out, key)),
        )
        for scale_out, key in asked:
            fenced = kind == "kubernetes" and deployment.version != controller.version
            if controller.late_s > LEAST_LEASE_S and not fenced:
                # Who falls asleep while its request leaves cannot be stopped, where nothing was written meanwhile.
                deployment.ask(now_s, scale_out, "", "")
                continue
            given = next(settings for settings in controller.jobs if settings.name == job)
            decision_id = self.watch.asked(deployment, given, (scale_out, key), controller.name, self.auditor)
            deployment.ask(now_s, scale_out, controller.name, decision_id)
        return code, document

    def _worded(self, job: str, request: Request, answered: Response, document: object) -> Response:
        """Return what reaches the client of an answer."""
        active = self.weather.active
        bad = active("garbage", job)
        if bad is None and is_of_checkpoints(request.path):
            bad = active("bad checkpoint", job)
        if bad is not None and bad.what in GARBAGE:
            return GARBAGE[bad.what]
        lie = active("absurd read", job)
        if lie is not None and request.method == "GET":
            return Response.of(answered.status, absurd(document, lie.amount))
        return answered
