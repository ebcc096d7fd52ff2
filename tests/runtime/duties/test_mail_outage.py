"""Mails while their server is down, in simulated time."""

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.notices.delivery import MAIL_NAME
from jqmaster.net.smtp_url import SmtpUrl
from jqmaster.runtime.duties.messenger import outcome_of
from jqmaster.runtime.outbound.carriers import DeliveryAttempt, MailCarrier
from jqmaster.runtime.outbound.mail_client import MailClient
from jqmaster.service.workers.reports import ReportService
from tests.support.mail_server import mail_server
from tests.support.notices import Notices
from tests.support.ports import free_port
from tests.support.store import StoreWorld


@pytest.mark.req("M5", "M10")
async def test_a_mail_server_that_is_away_for_an_hour_gets_each_mail_once_when_it_is_back(
    world: StoreWorld,
) -> None:
    notices = Notices(world)
    reports = ReportService(
        world.workers,
        world.constraints,
        settlements=world.settlements,
        challenges=world.challenges,
        records=world.records,
    )
    await notices.put()
    await notices.round()
    world.pass_ms(10)
    await notices.fail(2)
    await notices.rounds(14)
    (told,) = await notices.told()

    async def attempt(client: MailClient) -> None:
        """Run one attempt in the master's own worker when the delivery is due."""
        job = await world.get(told.job.id)
        world.pass_ms(max(0, job.due_at_ms - world.now_ms))
        await world.due.promote(world.epoch, JobState.RETRYING)
        worker = await world.worker(MAIL_NAME)
        (claimed,) = await world.claim(worker, MAIL_NAME)
        planned = await MailCarrier(client).plan(claimed)
        assert isinstance(planned, DeliveryAttempt)
        await reports.results(worker, [outcome_of(claimed, await planned.go())])

    away = MailClient(SmtpUrl.parse(f"smtp://127.0.0.1:{free_port()}"), "jq@shop.example")
    began_ms, attempts = world.now_ms, 0
    while world.now_ms - began_ms < 3_600_000:
        await attempt(away)
        attempts += 1
        assert await world.state(told.job.id) is JobState.RETRYING
    # The attempts get rarer, and no notice reports that mails fail.
    assert 8 <= attempts <= 12
    await notices.rounds(14)
    assert len(await notices.told()) == 0
    async with mail_server() as server:
        back = MailClient(SmtpUrl.parse(f"smtp://127.0.0.1:{server.port}"), "jq@shop.example")
        await attempt(back)
        ((address, mail),) = server.mails
    assert (address, mail["Subject"]) == ("ops@shop.example", "[jqmaster] 2 jobs failed")
    assert await world.state(told.job.id) is JobState.SUCCEEDED
