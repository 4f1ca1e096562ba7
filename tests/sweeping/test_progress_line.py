"""What a sweep says of its progress where there is no terminal."""

from learndyn.sweeping import progress_line


def test_a_line_has_counts_rate_and_time_left(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress_line.time, "monotonic", lambda: now[0])
    with progress_line.showing_progress(True) as told:
        told(10, 0, 40)  # ten were there before
        now[0] = 20.0
        told(19, 1, 40)
        counts = told.line()
        now[0] = 100.0
        silent = told.line()
        told(39, 1, 40)
    assert counts == (
        "sweep: 19 done, 1 failed, 20 left, 0.5 points/s, 0:00:20 elapsed, 0:00:40 left"
    )
    assert silent.endswith("0:01:40 elapsed, none has ended for 0:01:20")
    last = "sweep: 39 done, 1 failed, 0 left, 0.3 points/s, 0:01:40 elapsed, 0:00:00 left\n"
    assert capsys.readouterr().out == last
