"""The two clocks keep the same promises."""

import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from remit.core.clock import Clock
from remit.workspace.system_clock import SYSTEM_CLOCK
from stepped_clock import POLL_S, SteppedClock
from waiting import WAIT_S


def test_an_event_that_is_set_ends_a_wait_at_once() -> None:
    event = threading.Event()
    event.set()
    clocks: list[Clock] = [SYSTEM_CLOCK, SteppedClock()]
    assert [clock.wait(event, 3600.0) for clock in clocks] == [True, True]


def test_an_event_that_another_thread_sets_ends_a_wait() -> None:
    clock, event, came = SteppedClock(), threading.Event(), list[bool]()
    waiter = threading.Thread(target=lambda: came.append(clock.wait(event, 3600.0)))
    waiter.start()
    clock.wait_for_waiter()
    event.set()
    waiter.join()
    assert (came, clock.passed) == ([True], 0.0)


@settings(max_examples=20)
@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=4), st.floats(0.0, 300.0))
def test_each_wait_ends_at_its_own_time_in_the_order_of_times(pauses: list[float], minutes: float) -> None:
    """Each of several threads wakes at every multiple of its own pause, and never later than the clock says."""
    clock, stop = SteppedClock(), threading.Event()
    woken: list[tuple[float, int]] = []

    def beat(number: int, pause: float) -> None:
        while not clock.wait(stop, pause):
            woken.append((clock.passed, number))

    threads = [threading.Thread(target=beat, args=each, daemon=True) for each in enumerate(pauses)]
    for thread in threads:
        thread.start()
    clock.wait_for_waiter(len(threads))
    clock.advance(minutes)
    stop.set()
    for thread in threads:
        thread.join()
    assert clock.passed == minutes
    assert [at for at, _ in woken] == sorted(at for at, _ in woken)
    for number, pause in enumerate(pauses):
        beats, at = list[float](), pause
        while at <= minutes:
            beats, at = [*beats, at], at + pause
        assert [when for when, who in woken if who == number] == beats


def test_news_of_a_condition_that_comes_between_two_looks_is_not_missed() -> None:
    clock, news = SteppedClock(), threading.Condition()
    told: list[str] = []
    seen: list[str] = []

    def follow() -> None:
        with news:
            while not told:
                clock.wait(news, 60)
            seen.extend(told)

    thread = threading.Thread(target=follow)
    thread.start()
    clock.wait_for_waiter()
    with news:
        threading.Event().wait(3 * POLL_S)  # longer than a look at an event takes
        told.append("news")
        news.notify_all()
    thread.join(WAIT_S)
    assert seen == ["news"]


def test_time_that_is_due_ends_the_wait_for_a_condition() -> None:
    clock, news = SteppedClock(), threading.Condition()
    found: list[bool] = []

    def follow() -> None:
        with news:
            found.append(clock.wait(news, 60))

    thread = threading.Thread(target=follow)
    thread.start()
    clock.wait_for_waiter()
    clock.advance(59)
    assert found == []
    clock.advance(1)
    thread.join(WAIT_S)
    assert found == [False]
