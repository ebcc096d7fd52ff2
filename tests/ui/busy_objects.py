"""Objects of a busy system besides its load: calendars, targets, and a flow that failed."""

from datetime import UTC, datetime
from typing import Any

from jqmaster.domain.ids import new_id
from tests.ui.busy_system import BusySystem


async def add_objects(system: BusySystem) -> None:
    """Create them, and put the IDs that pictures need into `system.ids`."""
    year = datetime.now(UTC).year
    days = (("01-01", "New Year"), ("05-01", "Labour Day"), ("12-24", "Inventory"), ("12-25", "Christmas"))
    await system.call(
        "PUT",
        "/api/calendars/shop-holidays",
        {
            "dates": [
                {"date": f"{one}-{day}", "name": name} for one in (year, year + 1) for day, name in days
            ],
        },
    )
    await system.call(
        "PUT",
        "/api/targets/crm",
        {
            "names": ["crm.*"],
            "url": "https://crm.shop.example/jobs/{name}",
            "description": "The CRM, which has no worker of its own",
        },
    )
    system.ids["failed_flow"] = await _failed_flow(system)


async def _failed_flow(system: BusySystem) -> str:
    """Start a flow whose second photo is damaged, and return the ID of the job that is skipped for it."""
    photos = [new_id() for _ in range(3)]
    album, thumbnail = new_id(), new_id()
    jobs: list[dict[str, Any]] = [
        {"name": "photo.resize", "id": one, "argument": {"album": 8, "photo": 4 + n}, "max_retry": 0}
        for n, one in enumerate(photos)
    ]
    jobs += [
        {"name": "album.publish", "id": album, "argument": {"album": 8}, "after": {"jobs": photos}},
        {"name": "thumbnail.make", "id": thumbnail, "argument": {"photo_id": 8}, "after": {"jobs": [album]}},
    ]
    await system.call("POST", "/api/jobs/bulk", {"jobs": jobs})
    return album
