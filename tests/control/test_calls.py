"""Calls of servers: many at once within bounds, and a server that hangs delays its own only."""

import itertools
import threading
import time

from perdix.control.calls import Call, Calls


class Servers:
    """Counts who is asked at the same time; some hang until they are let go."""

    def __init__(self, *hanging):
        self.let_go = threading.Event()
        self.most = {}
        self._hanging, self._now, self._lock = hanging, {}, threading.Lock()

    def call(self, server, said, then=None):
        def ask():
            with self._lock:
                for who in (server, "all"):
                    self._now[who] = self._now.get(who, 0) + 1
                    self.most[who] = max(self.most.get(who, 0), self._now[who])
            if server in self._hanging:
                assert self.let_go.wait(10)
            else:
                time.sleep(0.002)
            with self._lock:
                for who in (server, "all"):
                    self._now[who] -= 1
            return said

        return Call(server, ask, then or (lambda found: [found]))


def test_every_call_is_answered_and_bounds_are_kept():
    servers = Servers()
    calls = [servers.call(f"s{number % 3}", number) for number in range(60)]
    assert sorted(Calls(at_once=5, per_server=2).run(calls)) == list(range(60))
    assert servers.most["all"] <= 5
    assert max(servers.most[server] for server in ("s0", "s1", "s2")) <= 2


def test_a_server_that_hangs_delays_its_own_calls_only():
    servers = Servers("dead")
    calls = [servers.call("dead", "dead") for _ in range(6)] + [servers.call("well", number) for number in range(20)]
    answers = Calls(at_once=8, per_server=3).run(calls)
    first = list(itertools.islice(answers, 20))
    assert sorted(first) == list(range(20)), "while every call of the other hangs"
    assert servers.most["dead"] == 3
    servers.let_go.set()
    assert list(answers) == ["dead"] * 6


def test_an_answer_may_lead_to_further_calls():
    servers = Servers()

    def then(found):
        yield f"{found} read"
        yield servers.call("target", f"{found} told")

    calls = [servers.call("metrics", number, then) for number in range(4)]
    expected = [f"{number} {what}" for number in range(4) for what in ("read", "told")]
    assert sorted(Calls().run(calls)) == expected


def test_calls_are_made_up_only_as_there_is_room_for_them():
    servers, made = Servers(), []

    def calls():
        for number in range(100):
            made.append(number)
            yield servers.call("one", number)

    answers = Calls(at_once=4, per_server=2).run(calls())
    next(answers)
    assert len(made) <= 8
    assert len(list(answers)) == 99


def test_nothing_to_ask_is_no_trouble():
    assert list(Calls().run([])) == []
