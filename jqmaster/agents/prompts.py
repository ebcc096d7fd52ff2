"""Prompts for three questions that operators on call ask."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class AgentPrompt:
    """A question with the way to answer it. `arguments`: the meaning of each argument, by name; all are optional."""

    name: str
    title: str
    text: str
    arguments: Mapping[str, str]
    steps: str

    def filled(self, given: Mapping[str, str]) -> str:
        """Return the text of the prompt with the given arguments."""
        told = [f"{name}: {given[name][:500]}" for name in self.arguments if given.get(name)]
        return "\n\n".join([self.steps, *(["Given:\n" + "\n".join(told)] if told else [])])


_END: Final = (
    "Say what you found in two or three plain sentences, with the figures, and then the next step. Change nothing "
    "unless I ask you to."
)

PROMPTS: Final = (
    AgentPrompt(
        "why_is_it_waiting", "Why is it waiting?",
        "Find out why jobs do not run, and when they will.",
        {"job": "ID of a job, or a job name."},
        "Jobs wait, and I need to know why. Call health first. If I gave a job ID, call why for it. If I "
        "gave a name, find one of its ready jobs by find_jobs with order oldest, and call why for that. If "
        "a constraint holds the job, call show_constraint for the constraint's usage and the time at which "
        "it opens. Call overview to check whether workers run the name. "
        + _END,
    ),
    AgentPrompt(
        "what_broke_since", "What broke since the deploy?",
        "Find the failures that began after a deploy.",
        {"since": "Time of the deploy.", "version": "Version that was deployed."},
        "Something was deployed, and I need to know what it broke. Call health, then failures. Look for "
        "groups that are new or regressed, groups with a first_seen_at after the deploy, and groups that "
        "only the new version has. Compare the history of the failing names before and after the deploy. "
        "Call show_job for one example of each group, and show its error. List new failures separately from "
        "failures that also occurred before. " + _END,
    ),
    AgentPrompt(
        "what_will_change", "What will this change do?",
        "Predict the effect of a limit, a pause or a retry.",
        {"change": "The change in words, or a constraint as JSON."},
        "Before I change something, show me what it would do. For a limit, call preview_constraint with its "
        "matcher, key and limits, and tell how many jobs the limit would hold and for how long. For a "
        "pause, a retry or a cancellation, call that tool without confirm: such a call changes nothing. "
        "Tell the count and the examples. Name everything else that the change would affect. Do not confirm "
        "the change. " + _END,
    ),
)  # fmt: skip
