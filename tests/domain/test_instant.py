from datetime import UTC, datetime, timedelta, timezone

from jqmaster.domain.instant import iso_ms, iso_utc, per


def test_instants_are_utc_with_three_decimals() -> None:
    assert iso_ms(1_800_000_000_007) == "2027-01-15T08:00:00.007Z"
    assert iso_ms(0) == "1970-01-01T00:00:00.000Z"
    assert iso_utc(datetime(2026, 11, 21, 6, 30, tzinfo=timezone(timedelta(hours=2)))) == (
        "2026-11-21T04:30:00.000Z"
    )
    assert iso_utc(datetime.min.replace(tzinfo=UTC)) == "0001-01-01T00:00:00.000Z"


def test_a_rate_has_the_unit_of_its_period_if_there_is_one() -> None:
    assert [per(60, 60_000), per(1_000, 1_000), per(5, 10_000)] == ["60/min", "1,000/s", "5 in 10 s"]
