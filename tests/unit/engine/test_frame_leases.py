"""Frames hold versions until they are given back, a while after they are gone, or until all is closed."""

from __future__ import annotations

import threading
import time

from windrow.engine.ask.onetime.frame_leases import FrameLeases


class Frame:
    pass


def timers() -> int:
    return sum(isinstance(one, threading.Timer) for one in threading.enumerate())


def test_frame_that_is_given_back() -> None:
    leases, released, frame = FrameLeases(60), list[str](), Frame()
    leases.hold(frame, lambda: released.append("one"))
    leases.give_back(frame)
    leases.give_back(frame)
    del frame
    assert (released, leases.waiting) == (["one"], 0)


def test_one_timer_serves_all_frames() -> None:
    leases, released, before = FrameLeases(60), list[int](), timers()
    for i in range(20):
        leases.hold(Frame(), lambda i=i: released.append(i))  # type: ignore[misc]
    assert (leases.waiting, timers() - before, released) == (20, 1, [])
    leases.close()


def test_versions_go_after_the_lease() -> None:
    leases, released = FrameLeases(0.05), list[int]()
    for i in range(3):
        leases.hold(Frame(), lambda i=i: released.append(i))  # type: ignore[misc]
        time.sleep(0.02)
    until = time.monotonic() + 10
    while len(released) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert (released, leases.waiting) == ([0, 1, 2], 0)


def test_close_releases_all_and_stops_the_timer() -> None:
    leases, released, before, frame = FrameLeases(60), list[str](), timers(), Frame()
    leases.hold(frame, lambda: released.append("held"))
    leases.hold(Frame(), lambda: released.append("gone"))
    assert timers() == before + 1
    leases.close()
    assert sorted(released) == ["gone", "held"]
    until = time.monotonic() + 10
    while timers() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert timers() == before
