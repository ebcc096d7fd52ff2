from datetime import UTC, datetime, timedelta, timezone

from jqmaster.domain.instant import iso_ms, iso_utc


def test_instants_are_utc_with_three_decimals() -> None:
    assert iso_ms(1_800_000_000_007) == "2027-01-15T08:00:00.007Z"
    assert iso_ms(0) == "1970-01-01T00:00:00.000Z"
    assert iso_utc(datetime(2026, 11, 21, 6, 30, tzinfo=timezone(timedelta(hours=2)))) == (
        "2026-11-21T04:30:00.000Z"
    )
    assert iso_utc(datetime.min.replace(tzinfo=UTC)) == "0001-01-01T00:00:00.000Z"
