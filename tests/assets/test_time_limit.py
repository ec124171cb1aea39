"""Work that takes too long ends with a reason; everything else goes on undisturbed."""

import signal
import threading
import time

import pytest

from perdix.assets.kept_tasks import time_limit


def never_ending() -> None:
    while True:
        pass


def test_work_that_takes_too_long_ends() -> None:
    began_s = time.process_time()
    with pytest.raises(TimeoutError, match=r"took longer than 0\.05 s"), time_limit(0.05):
        never_ending()
    assert time.process_time() - began_s < 5.0


def test_work_in_time_is_not_disturbed_afterwards() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with time_limit(0.05):
        pass
    time.sleep(0.1)
    assert signal.getsignal(signal.SIGALRM) is before


def test_beside_the_main_thread_there_is_no_limit() -> None:
    found = []

    def work() -> None:
        with time_limit(0.01):
            time.sleep(0.1)
            found.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["done"]
