"""Enqueues the deliveries of messages. Each mail address and each URL gets a job of its own, which masters run
themselves."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from jqmaster.domain.ids import is_id
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.notices.conditions import When
from jqmaster.domain.notices.delivery import MAIL_NAME, SLACK_NAME, WEBHOOK_NAME, reserved_job, stable_id
from jqmaster.domain.notices.incident import Message
from jqmaster.domain.notices.notice import Channel, Notice
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.notices.letters import Letter, Letters
from jqmaster.store.jobs.enqueue import EnqueueStore
from jqmaster.store.jobs.enqueue_outcomes import BacklogFull
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.notices.waiting_challenges import WaitingChallengeStore

_NAMES: Final = {Channel.MAIL: MAIL_NAME, Channel.WEBHOOK: WEBHOOK_NAME, Channel.SLACK: SLACK_NAME}


class NoticeSender:
    """Enqueues the deliveries of messages. A message may be enqueued again at any time, because its deliveries always
    have the same IDs. `prepare`: returns once a worker that runs deliveries is registered."""

    def __init__(
        self,
        new_jobs: EnqueueStore,
        records: RecordStore,
        constraints: ConstraintCache,
        letters: Letters,
        *,
        prepare: Callable[[], Awaitable[None]],
        waiting: WaitingChallengeStore,
    ) -> None:
        self._waiting = waiting
        self._new_jobs = new_jobs
        self._records = records
        self._constraints = constraints
        self._letters = letters
        self._prepare = prepare

    async def send(self, notice: Notice, message: Message) -> bool:
        """Enqueue the deliveries of a message. Return whether all of them are enqueued: a backlog limit may refuse
        some. Raise what the store raises."""
        # The message links only to jobs that still exist.
        job_ids = [job_id for _, _, job_id in message.lines if job_id]
        jobs = await self._records.get_without_argument(job_ids)
        questions = await self._questions(job_ids) if notice.when is When.CHALLENGE_WAITING else {}
        letter = self._letters.of(notice, message, jobs, questions)
        specs = self._deliveries(notice, letter, message, questions)
        await self._prepare()
        outcomes = await self._constraints.under(
            lambda constraints: self._new_jobs.enqueue(specs, constraints)
        )
        # A taken ID also counts as a success: the delivery was enqueued earlier.
        return not any(isinstance(outcome, BacklogFull) for outcome in outcomes)

    async def _questions(self, job_ids: Sequence[str]) -> dict[str, str]:
        """Return, by job ID, the addresses at which people answer the open challenges of these jobs."""
        found = {}
        for job_id, challenge in (await self._waiting.open_of(job_ids)).items():
            if challenge.link and (url := self._letters.question_url(challenge.link)):
                found[job_id] = url
        return found

    def _deliveries(
        self, notice: Notice, letter: Letter, message: Message, questions: Mapping[str, str]
    ) -> list[JobSpec]:
        specs = []
        for place, destination in enumerate(notice.to):
            if destination.channel is Channel.MAIL:
                mail = {"subject": letter.subject, "text": letter.text(), "html": letter.html()}
                specs += [
                    self._delivery(notice, message, MAIL_NAME, address, {"to": address, **mail})
                    for address in destination.addresses
                ]
                continue
            # Do not put the URL into the job. The URL may be a credential, and somebody may replace it before the
            # delivery.
            argument = {"notice": notice.name, "nid": notice.nid, "place": place}
            body = (
                letter.slack()
                if destination.channel is Channel.SLACK
                else _webhook_body(notice, message, questions)
            )
            specs.append(
                self._delivery(
                    notice, message, _NAMES[destination.channel], str(place), {**argument, "body": body}
                )
            )
        return specs

    @staticmethod
    def _delivery(notice: Notice, message: Message, name: str, to: str, argument: dict[str, Any]) -> JobSpec:
        own_id = stable_id(message.at_ms, "notice", message.id, name, to)
        return reserved_job(name, own_id, argument, message.at_ms, f"notice:{notice.name}")


def _webhook_body(notice: Notice, message: Message, questions: Mapping[str, str]) -> str:
    """Return the body of a webhook for a message."""
    body = {
        "type": f"notice.{message.kind}",
        "timestamp": iso_ms(message.at_ms),
        "data": {
            "notice": notice.name,
            "when": str(notice.when),
            "message_id": message.id,
            "key": message.key,
            "count": message.count,
            "new": message.new,
            "began_at": iso_ms(message.began_ms) if message.began_ms else None,
            "last_at": iso_ms(message.last_ms) if message.last_ms else None,
            "lines": [
                {
                    "text": text,
                    "count": count,
                    "job_id": job_id if is_id(job_id) else None,
                    **({"url": questions[job_id]} if job_id in questions else {}),
                }
                for text, count, job_id in message.lines
            ],
        },
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
