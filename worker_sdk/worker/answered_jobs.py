"""Jobs that come with the answers to a worker's reports, so that a slot is filled again without a push."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from worker_sdk.worker.admission import Admission, MalformedError
from worker_sdk.worker.descriptors import Descriptors
from worker_sdk.worker.identity import WorkerIdentity

logger = logging.getLogger(__name__)

HEADER: Final = "JQ-Jobs-After"


class AnsweredJobs:
    """Takes the jobs in answers to reports.

    * `hand_back(job_id, token)`: called for a job that this worker does not accept.
    * `field_line`: the header field of a report if its answer may carry jobs. The field shows the masters which answers
      have arrived.
    """

    def __init__(
        self,
        admission: Admission,
        identity: WorkerIdentity,
        descriptors: Descriptors,
        hand_back: Callable[[str, str], None],
    ) -> None:
        self.admission = admission
        self.descriptors = descriptors
        self._identity = identity
        self._hand_back = hand_back
        self._newest_fence = 0
        self.field_line = _field_line(0)

    def take(self, worker_id: str, answer: Mapping[str, Any]) -> None:
        """Start the jobs of an answer to a report of this worker ID."""
        epoch, jobs = answer.get("epoch"), answer.get("jobs")
        if (
            type(epoch) is not int
            or not isinstance(jobs, list)
            or not jobs
            or self._identity.worker_id != worker_id
        ):
            # The worker has registered again, so do not start the jobs. Another run of them begins after their leases
            # end.
            return
        try:
            rejected = self.admission.offer(epoch, jobs)["rejected"]
        except MalformedError as exc:
            # Ignore the answer. The master then pushes these jobs, and learns from the refusal what is wrong.
            logger.error("jobs that came with an answer are ignored: %s", exc)
            return
        self._newest_fence = max(self._newest_fence, *[job["fence"] for job in jobs])
        self.field_line = _field_line(self._newest_fence)
        if not rejected:
            return
        tokens = {job["job_id"]: job["token"] for job in jobs}
        for one in rejected:
            # Do not hand back a duplicate, because a master might offer it again at once. The duplicate waits until its
            # lease ends.
            if one["reason"] != "duplicate":
                # Do not warn of `busy` if namespaces share the slots: together, they are offered more jobs than there
                # are slots.
                is_usual = one["reason"] == "busy" and self.admission.share is not None
                level = logging.DEBUG if is_usual else logging.WARNING
                logger.log(level, "job %s is handed back: %s", one["job_id"], one["reason"])
                self._hand_back(one["job_id"], tokens[one["job_id"]])


def _field_line(newest_fence: int) -> str:
    return f"{HEADER}: {newest_fence}\r\n"
