"""The page on which people answer a challenge: HTML without scripts and with inline styles."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from typing import Final

from jqmaster.api.challenges.page_texts import LANGUAGES, TEXTS, length_text, rule_text
from jqmaster.api.http.security_headers import NO_STORE, security_headers
from jqmaster.domain.challenges.challenge import Challenge, ChallengeState
from jqmaster.domain.challenges.challenge_form import (
    MAX_COMMENT,
    MAX_TEXT,
    Choice,
    Comment,
    Form,
    FormField,
    GivenAnswer,
)
from jqmaster.domain.instant import iso_ms
from jqmaster.errors import FieldError

MEDIA_TYPE: Final = b"text/html; charset=utf-8"
# Prefix of the names of a form's fields. Without the prefix, a field could have the name of another control, such
# as `csrf`.
FIELD_PREFIX: Final = "value."
# A text field with a higher maximum length is shown with several lines.
_MAX_LINE: Final = 200
_STYLE: Final = """
:root { color-scheme: light dark;
  --bg: #f5f6f8; --surface: #fff; --text: #1a1f29; --muted: #525c6b; --border: #d3d9e2; --control: #7d8899;
  --accent: #1b5bc4; --on-accent: #fff;
  --bad: #b3261e; --bad-bg: #fdeceb; --ok: #19703d; --ok-bg: #e4f5ea; --info-bg: #e6effc; }
@media (prefers-color-scheme: dark) { :root {
  --bg: #10141b; --surface: #181d26; --text: #e5e9f0; --muted: #a5b0c2; --border: #303948; --control: #7a869a;
  --accent: #86b4ff; --on-accent: #0d1726;
  --bad: #ff968e; --bad-bg: #3a1d1c; --ok: #7bd6a0; --ok-bg: #15301f; --info-bg: #1a2b47; } }
*, *::before, *::after { box-sizing: border-box; }
html { font: 100%/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Hiragino Sans", "Noto Sans CJK JP",
  sans-serif; }
body { margin: 0; padding: 1rem; background: var(--bg); color: var(--text); overflow-wrap: anywhere; }
main { max-width: 40rem; margin: 4vh auto; padding: 1.25rem 1.5rem 1.5rem; background: var(--surface);
  border: 1px solid var(--border); border-radius: 12px; }
h1 { font-size: 1.35rem; line-height: 1.3; margin: 0 0 .75rem; }
h2 { font-size: 1.05rem; margin: 1.25rem 0 .5rem; }
p { margin: 0 0 .75rem; }
.text { white-space: pre-wrap; }
.muted, .hint { color: var(--muted); font-size: .9rem; }
.hint { margin: .15rem 0 .3rem; }
.box { border: 1px solid; border-radius: 8px; padding: .6rem .9rem; margin: 0 0 1rem; }
.box p:last-child, .box ul { margin-bottom: 0; }
.box ul { margin-top: .3rem; padding-left: 1.2rem; }
.bad { background: var(--bad-bg); color: var(--bad); }
.ok { background: var(--ok-bg); color: var(--ok); }
.info { background: var(--info-bg); color: var(--text); border-color: var(--border); }
.field { margin: 0 0 1rem; }
.field label { font-weight: 600; }
.field .mark { font-weight: 400; color: var(--muted); font-size: .9rem; }
.check { display: flex; align-items: center; gap: .6rem; min-height: 2rem; }
.error { color: var(--bad); font-size: .9rem; font-weight: 600; margin: .25rem 0 0; }
input, select, textarea, button { font: inherit; color: inherit; background: var(--surface);
  border: 1px solid var(--control); border-radius: 6px; padding: .5rem .65rem; }
input:not([type=checkbox]), select, textarea { width: 100%; min-height: 2.75rem; }
input[type=checkbox] { width: 1.3rem; height: 1.3rem; margin: 0; accent-color: var(--accent); }
textarea { min-height: 6rem; resize: vertical; }
[aria-invalid=true] { border-color: var(--bad); }
.choices { display: flex; flex-wrap: wrap; gap: .75rem; margin-top: 1.25rem; }
button, .button { flex: 1 1 8rem; min-height: 2.9rem; font-weight: 600; cursor: pointer; }
.button { display: inline-block; padding: .6rem 1.2rem; border-radius: 6px; text-align: center; text-decoration: none; }
.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
[hidden] { display: none; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.answers { list-style: none; margin: 0; padding: 0; }
.answers li { border-top: 1px solid var(--border); padding: .6rem 0; }
.answers p { margin: .25rem 0 0; }
footer { max-width: 40rem; margin: 0 auto; text-align: center; color: var(--muted); font-size: .9rem; }
a { color: var(--accent); }
footer a { display: inline-block; padding: .3rem .5rem; }
@media (max-width: 30rem) { body { padding: .5rem; } main { margin: .5rem auto; padding: 1rem; } }
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
SECURITY_HEADERS: Final = (
    # The address is a credential, so other sites must not get it as the referrer. This site must get the
    # referrer, because it shows that the form was sent from this site.
    *security_headers(
        f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        referrer=b"same-origin",
    ),
    NO_STORE,
    (b"x-robots-tag", b"noindex, nofollow"),
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """The person who looks at the page.

    * `csrf_token`: the CSRF token of the person's login. The form must contain it. Empty: the person is not
      logged in.
    * `now_ms`: the time of the store. 0: the page does not show the remaining time.
    """

    language: str
    name: str = ""
    csrf_token: str = ""
    now_ms: int = 0

    @property
    def shown_name(self) -> str:
        return _shown(self.name)


@dataclass(frozen=True, slots=True)
class RejectedInput:
    """The texts that a person sent and must correct, by control name."""

    texts: Mapping[str, str] = field(default_factory=dict)
    errors: Sequence[FieldError] = ()


def form_page(
    challenge: Challenge, form: Form, visitor: Visitor, filled: RejectedInput | None = None
) -> bytes:
    """Return the page with the question and its form."""
    texts = TEXTS[visitor.language]
    sent = filled or RejectedInput()
    errors = _by_control(sent.errors, visitor.language)
    parts = [
        f'<h1 dir="auto">{escape(form.title)}</h1>',
        _error_list(errors, form, visitor.language),
        f'<p class="text" dir="auto">{escape(form.description)}</p>' if form.description else "",
        _facts(challenge, visitor),
        '<form method="post">',
        # The Enter key activates the first button of the form, even from a text field. So the first button does
        # nothing.
        '<button type="submit" disabled hidden></button>',
    ]
    if visitor.csrf_token:
        parts.append(f'<input type="hidden" name="csrf" value="{escape(visitor.csrf_token)}">')
    for number, asked in enumerate(form.fields):
        parts.append(_field(f"f{number}", asked, filled, errors, texts))
    if form.comment is not Comment.NONE:
        parts.append(_comment(form, sent, errors, texts))
    parts.append('<div class="choices">')
    for number, choice in enumerate(form.choices):
        look = ' class="primary"' if number == 0 else ""
        skips = " formnovalidate" if choice.skips_fields else ""
        parts.append(
            f'<button type="submit" name="choice" value="{escape(choice.value)}"{look}{skips} dir="auto">'
            f"{escape(label_of(choice, visitor.language))}</button>"
        )
    parts.append("</div></form>")
    if challenge.answers:
        parts.append(_answers(challenge, form, visitor.language))
    return _page(form.title, "".join(parts), visitor.language)


def answered_page(
    challenge: Challenge, form: Form, language: str, *, is_own: bool = False, is_other: bool = False
) -> bytes:
    """Return the page of an answered challenge.
    * `is_own`: this person has just answered the challenge.
    * `is_other`: somebody else answered before this person.
    """
    texts = TEXTS[language]
    key = "recorded" if is_own else "answered"
    more = texts["other"] if is_other else texts["answered.text"]
    body = (
        f'<h1 dir="auto">{escape(form.title)}</h1>'
        f'<div class="box {"info" if is_other else "ok"}" role="status"><p><strong>{texts[key]}</strong></p>'
        f"<p>{more}</p></div>"
        f"{_answers(challenge, form, language)}"
    )
    return _page(texts[key], body, language)


def over_page(challenge: Challenge, form: Form, language: str) -> bytes:
    """Return the page of a challenge that has expired or no longer needs an answer."""
    key = "expired" if challenge.state is ChallengeState.EXPIRED else "void"
    text = TEXTS[language][f"{key}.text"].format(time=_time(challenge.due_at_ms or challenge.ended_at_ms))
    body = (
        f'<h1 dir="auto">{escape(form.title)}</h1><div class="box info" role="status"><p><strong>'
        f"{TEXTS[language][key]}</strong></p><p>{text}</p></div>"
        f"{_answers(challenge, form, language) if challenge.answers else ''}"
    )
    return _page(TEXTS[language][key], body, language)


def plain_page(key: str, language: str, *, link: tuple[str, str] | None = None, name: str = "") -> bytes:
    """Return a page with a single message. `link`: the key of the link's text, and the link's address."""
    texts = TEXTS[language]
    text = escape(texts[f"{key}.text"].format(name=_shown(name)))
    go = f'<p><a class="button primary" href="{escape(link[1])}">{texts[link[0]]}</a></p>' if link else ""
    return _page(texts[key], f"<h1>{texts[key]}</h1><p>{text}</p>{go}", language)


def reload_page(language: str, address: str) -> bytes:
    """Return a page that redirects at once to an address of this site. A browser that comes from another site sends
    the login cookie only with that second request."""
    texts, target = TEXTS[language], escape(address)
    return _page(
        texts["continue"],
        f'<h1>{texts["continue"]}</h1><p><a class="button primary" href="{target}">{texts["continue"]}</a></p>',
        language,
        head=f'<meta http-equiv="refresh" content="0;url={target}">',
    )


def label_of(choice: Choice, language: str) -> str:
    """Return the text of a choice. The standard choices are translated."""
    if choice.label:
        return choice.label
    return TEXTS[language][choice.value] if choice.value in ("approve", "reject") else choice.value


def _page(title: str, body: str, language: str, *, head: str = "") -> bytes:
    others = "".join(
        f'<a href="?lang={code}" lang="{code}" hreflang="{code}">{name}</a>'
        for code, name in LANGUAGES.items()
        if code != language
    )
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark">{head}<title>{escape(title)} – jqmaster</title>'
        f"<style>{_STYLE}</style></head><body><main>{body}</main>"
        f'<footer><nav aria-label="{TEXTS[language]["language"]}">{others}</nav></footer></body></html>'
    ).encode(errors="replace")


def _facts(challenge: Challenge, visitor: Visitor) -> str:
    texts, lines = TEXTS[visitor.language], []
    if challenge.due_at_ms:
        left_ms = challenge.due_at_ms - visitor.now_ms if visitor.now_ms else 0
        left = (
            f" ({texts['left'].format(time=length_text(visitor.language, left_ms))})" if left_ms > 0 else ""
        )
        lines.append(texts["due"].format(time=_time(challenge.due_at_ms) + left))
    if challenge.expect > 1:
        lines.append(texts["answers"].format(received=challenge.received, expect=challenge.expect))
    if visitor.name:
        lines.append(texts["by"].format(name=f"<strong>{escape(visitor.shown_name)}</strong>"))
    return f'<p class="muted">{" ".join(lines)}</p>' if lines else ""


def _shown(who: str) -> str:
    """Return a person's name without the kind of login."""
    return who.removeprefix("user:")


def _time(ms: int) -> str:
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return f'<time datetime="{iso_ms(ms)}">{at:%Y-%m-%d %H:%M} UTC</time>'


def _answers(challenge: Challenge, form: Form, language: str) -> str:
    items = "".join(f"<li>{_answer(one, form, language)}</li>" for one in challenge.answers)
    return f'<ul class="answers">{items}</ul>'


def _answer(one: GivenAnswer, form: Form, language: str) -> str:
    choice = form.choice(one.choice)
    label = label_of(choice, language) if choice else one.choice
    text = TEXTS[language]["given.by" if one.by else "given"].format(
        choice=f'<strong dir="auto">{escape(label)}</strong>',
        name=escape(_shown(one.by)),
        time=_time(one.at_ms),
    )
    return text + (f'<p class="text" dir="auto">{escape(one.comment)}</p>' if one.comment else "")


def _by_control(errors: Sequence[FieldError], language: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for error in errors:
        name = f"{FIELD_PREFIX}{error.loc[1]}" if error.loc[0] == "values" else str(error.loc[0])
        found.setdefault(name, rule_text(language, error.msg))
    return found


def _error_list(errors: Mapping[str, str], form: Form, language: str) -> str:
    if not errors:
        return ""
    labels = {f"{FIELD_PREFIX}{one.name}": (f"f{n}", one.label) for n, one in enumerate(form.fields)}
    labels["comment"] = ("comment", TEXTS[language]["comment"])
    items = []
    for name, rule in errors.items():
        control, label = labels.get(name, ("", name))
        shown = f'<a href="#{control}">{escape(label)}</a>' if control else escape(label)
        items.append(f"<li>{shown}: {escape(rule)}</li>")
    return (
        f'<div class="box bad" role="alert"><p>{TEXTS[language]["errors"]}</p><ul>{"".join(items)}</ul></div>'
    )


def _field(
    control: str,
    asked: FormField,
    filled: RejectedInput | None,
    errors: Mapping[str, str],
    texts: Mapping[str, str],
) -> str:
    name, is_sent, sent = f"{FIELD_PREFIX}{asked.name}", filled is not None, filled or RejectedInput()
    initial = "" if asked.default is None else str(asked.default)
    value = sent.texts.get(name, "") if is_sent else initial
    about, notes = _notes(control, asked.description, errors.get(name, ""))
    given = f'id="{control}" name="{escape(name)}"{about}'
    label = f'<label for="{control}" dir="auto">{escape(asked.label)}</label>'
    if asked.kind == "boolean":
        ticked = " checked" if (is_sent and value) or (not is_sent and asked.default) else ""
        return (
            f'<div class="field"><div class="check"><input type="checkbox" {given} value="1"{ticked}>{label}</div>'
            f"{''.join(notes)}</div>"
        )
    if not asked.is_required:
        label += f' <span class="mark">({texts["optional"]})</span>'
    given += " required" if asked.is_required else ""
    if asked.options:
        shown = "".join(
            f'<option value="{escape(str(one))}"{" selected" if str(one) == value else ""}>{escape(str(one))}</option>'
            for one in asked.options
        )
        box = f'<select {given}><option value="">{texts["no_value"]}</option>{shown}</select>'
    elif asked.kind == "string" and asked.max_length > _MAX_LINE and not asked.format:
        # Browsers drop a line break right after the opening tag. This line break is added to be dropped.
        box = f"<textarea {given}{_lengths(asked)}>\n{escape(value)}</textarea>"
    else:
        box = f'<input {given} {_kind_of(asked)} value="{escape(value)}">'
    description, error = notes
    return f'<div class="field">{label}{description}{box}{error}</div>'


def _kind_of(asked: FormField) -> str:
    if asked.kind == "string":
        kind = {"date": "date", "email": "email", "uri": "url"}.get(asked.format, "text")
        return f'type="{kind}"{_lengths(asked)}'
    bounds = "".join(
        f' {name}="{bound}"'
        for name, bound in (("min", asked.minimum), ("max", asked.maximum))
        if bound is not None
    )
    step, keys = ("1", "numeric") if asked.kind == "integer" else ("any", "decimal")
    return f'type="number" inputmode="{keys}" step="{step}"{bounds}'


def _lengths(asked: FormField) -> str:
    least = f' minlength="{asked.min_length}"' if asked.min_length else ""
    return least + (f' maxlength="{asked.max_length}"' if asked.max_length < MAX_TEXT else "")


def _comment(form: Form, sent: RejectedInput, errors: Mapping[str, str], texts: Mapping[str, str]) -> str:
    needing = [
        label_of(one, "ja" if texts is TEXTS["ja"] else "en") for one in form.choices if one.needs_comment
    ]
    is_required = form.comment is Comment.REQUIRED
    mark = (
        "" if is_required
        else texts["comment.for"].format(choices=", ".join(map(escape, needing))) if needing
        else texts["optional"]
    )  # fmt: skip
    about, notes = _notes("comment", "", errors.get("comment", ""))
    shown = f' <span class="mark">({mark})</span>' if mark else ""
    return (
        f'<div class="field"><label for="comment">{texts["comment"]}</label>{shown}'
        f'<textarea id="comment" name="comment" maxlength="{MAX_COMMENT}"{about}{" required" if is_required else ""}>\n'
        f"{escape(sent.texts.get('comment', ''))}</textarea>{notes[1]}</div>"
    )


def _notes(control: str, description: str, error: str) -> tuple[str, tuple[str, str]]:
    """Return two texts: the attributes that link a control to its hint and its error, and the elements of the
    hint and the error."""
    ids, hint, fault = [], "", ""
    if description:
        ids.append(f"{control}-hint")
        hint = f'<p class="hint" id="{control}-hint" dir="auto">{escape(description)}</p>'
    if error:
        ids.append(f"{control}-error")
        fault = f'<p class="error" id="{control}-error">{escape(error)}</p>'
    about = f' aria-describedby="{" ".join(ids)}"' if ids else ""
    return about + (' aria-invalid="true"' if error else ""), (hint, fault)
