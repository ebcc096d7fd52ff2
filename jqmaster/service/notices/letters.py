"""Writes the texts of messages for people. The templates are in `templates/`."""

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import Job
from jqmaster.domain.notices.conditions import CONDITIONS
from jqmaster.domain.notices.incident import Message, MessageKind
from jqmaster.domain.notices.notice import Notice
from jqmaster.net.link_template import links_of

MAX_LINE: Final = 300
_MENTION: Final = re.compile(r"(?<![\w.+-])@(?=\w)")
MAX_SUBJECT: Final = 150


@dataclass(frozen=True, slots=True)
class LetterLine:
    """A line of a letter. `links`: pairs of a label and an address."""

    text: str
    links: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Letter:
    """The text of a message. All fields are plain text. The templates escape them."""

    subject: str
    lead: str
    lines: Sequence[LetterLine]
    links: Sequence[tuple[str, str]]
    foot: str

    def text(self) -> str:
        """Return the letter as plain text."""
        lines = []
        for line in self.lines:
            lines.append(f"* {line.text}")
            lines += [f"  {label}: {url}" for label, url in line.links]
        return _template("mail.txt").substitute(
            lead=self.lead,
            lines="\n".join(lines),
            links="\n".join(f"{label}: {url}" for label, url in self.links),
            foot=self.foot,
        )

    def html(self) -> str:
        """Return the letter as an HTML page."""
        line_form = _template("mail_line.html")
        return _template("mail.html").substitute(
            subject=html.escape(self.subject),
            lead=html.escape(self.lead),
            lines="".join(
                line_form.substitute(text=html.escape(line.text), links=_html_links(line.links))
                for line in self.lines
            ),
            links=_html_links(self.links),
            foot=html.escape(self.foot),
        )

    def slack(self) -> str:
        """Return the letter as the body of a request to an incoming webhook of Slack."""
        lines = [
            " ".join((f"• {_slack_text(line.text)}", *map(_slack_link, line.links))) for line in self.lines
        ]
        text = _template("slack.txt").substitute(
            subject=_slack_text(self.subject),
            lead=_slack_text(self.lead),
            lines="\n".join(lines),
            links=" ".join(map(_slack_link, self.links)),
        )
        return json.dumps({"text": text.strip()}, ensure_ascii=False)


class Letters:
    """Writes letters.

    * `public_url`: the address of the web UI, for links. None: letters have no links.
    * `link_templates`: templates of links from a job to other systems.
    """

    def __init__(self, public_url: str | None, link_templates: Sequence[str] = ()) -> None:
        self._link_templates = link_templates
        self._root = None if public_url is None else public_url.rstrip("/")

    def question_url(self, request_id: str) -> str | None:
        """Return the address of the page on which people answer a challenge. None: the address of the web UI is
        unknown."""
        return None if self._root is None else f"{self._root}/callbacks/{request_id}"

    def of(
        self,
        notice: Notice,
        message: Message,
        jobs: Mapping[str, Job],
        questions: Mapping[str, str] = MappingProxyType({}),
    ) -> Letter:
        """Return the letter for a message.

        * `jobs`: the jobs of the message that still exist.
        * `questions`: the addresses at which people answer the challenges of these jobs.
        """
        subject, lead = _subject(notice, message), _lead(notice, message)
        lines = []
        for text, count, job_id in message.lines:
            times = f"{count:,} × " if count > 1 else ""
            links = self._of_job(one, "example" if count > 1 else "job") if (one := jobs.get(job_id)) else ()
            if job_id in questions:
                links = (("answer", questions[job_id]), *links)
            lines.append(LetterLine(times + plain(text, MAX_LINE), links))
        condition = CONDITIONS[notice.when]
        return Letter(
            subject=f"[jqmaster] {plain(subject, MAX_SUBJECT)}",
            lead=plain(lead, 2 * MAX_LINE),
            lines=lines,
            links=self._link("See more", condition.page, condition.query),
            foot=f"Notice {notice.name}: at most one message in {notice.at_most_every_s} s.",
        )

    def _of_job(self, job: Job, label: str) -> Sequence[tuple[str, str]]:
        fields = {
            "job_id": job.id,
            "name": job.name,
            "attempt": job.attempt,
            "created_ms": job.created_at_ms,
            "finished_ms": job.finished_at_ms or "",
        }
        return (*self._link(label, "job", {"id": job.id}), *links_of(self._link_templates, fields))

    def _link(self, label: str, page: str, query: Mapping[str, str]) -> Sequence[tuple[str, str]]:
        if self._root is None:
            return ()
        return ((label, f"{self._root}/#/{page}" + (f"?{urlencode(query)}" if query else "")),)


def plain(text: str, most: int) -> str:
    """Return the text on one line, without unprintable characters, and at most `most` characters long. Such a text
    cannot break a header or a line."""
    printable = "".join(c if c.isprintable() else " " for c in text[: 4 * most])
    shown = " ".join(printable.split())
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _counted(notice: Notice, count: int) -> str:
    one, several = CONDITIONS[notice.when].texts
    return f"{count:,} {one if count == 1 else several}"


def _subject(notice: Notice, message: Message) -> str:
    if message.kind is MessageKind.TEST:
        return f"Test of notice {notice.name}"
    key = f" ({message.key})" if message.key and notice.group_by == "name" else ""
    if notice.is_lasting:
        begins, ends = CONDITIONS[notice.when].texts
        return (ends if message.kind is MessageKind.OVER else begins) + key
    return _counted(notice, message.count) + key


def _lead(notice: Notice, message: Message) -> str:
    if message.kind is MessageKind.TEST:
        return f"{message.asked_by} requested this message. Messages of notice {notice.name} arrive here."
    if notice.is_lasting:
        begins, ends = CONDITIONS[notice.when].texts
        if message.kind is MessageKind.OVER:
            return f"{ends}. It began at {iso_ms(message.began_ms)}, and was last seen at {iso_ms(message.last_ms)}."
        return f"{begins}, since {iso_ms(message.began_ms)} at least."
    counted = _counted(notice, message.count)
    since = f"between {iso_ms(message.began_ms)} and {iso_ms(message.last_ms)}"
    if message.kind is MessageKind.MORE:
        return f"{counted} in total, {since}; {message.new:,} of these since the last message."
    return f"{counted} {since}." if message.count > 1 else f"{counted} at {iso_ms(message.last_ms)}."


@cache
def _template(name: str) -> Template:
    return Template((files("jqmaster.service.notices") / "templates" / name).read_text("utf-8"))


def _html_links(links: Sequence[tuple[str, str]]) -> str:
    return " ".join(f'<a href="{html.escape(url)}">{html.escape(label)}</a>' for label, url in links)


def _slack_text(text: str) -> str:
    """Return the text without anything that Slack or a compatible receiver would interpret as a link, a mention or
    markup."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # Break @everyone and @channel, which Mattermost and Discord interpret as mentions. Leave mail addresses whole, in
    # which a character precedes the @.
    escaped = _MENTION.sub("@\u200b", escaped)
    # Put a zero-width space beside the characters that mark bold, italic and struck-out text, and code. It makes them
    # ineffective.
    return "".join(f"{c}\u200b" if c in "*_~`" else c for c in escaped)


def _slack_link(link: tuple[str, str]) -> str:
    label, url = link
    return f"<{url}|{_slack_text(label)}>"
