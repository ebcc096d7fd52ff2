"""Access to content: the values that jobs carry or leave behind.

Content is:

* every value of an argument, a header, a result and an error,
* the text of an error,
* values of a constraint's key, if the key reads one of these.

Names, tags, states, times, counts and types of exceptions are not content.

This module applies the only two rules:

* A caller without the right to content sees none of it.
* Values at `redact_paths` are shown to nobody.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from jqmaster.domain.content.redact import REDACTED, Redactor, redactor_of
from jqmaster.domain.identity.access import Principal, Scope
from jqmaster.domain.matching.checks import Loc
from jqmaster.domain.matching.fields import EVENT_FIELDS, FIELDS
from jqmaster.domain.matching.paths import Path, parse_path
from jqmaster.errors import FieldError, ForbiddenError

Cover = Literal["[hidden]", "[redacted]"]
HIDDEN: Final = "[hidden]"

# The root in `redact_paths` for each field of matchers and keys that reads content. A payload is covered like
# an argument, because it becomes the argument of jobs.
_CONTENT_ROOTS: Final = {"argument": "argument", "headers": "headers", "payload": "argument"}
_FIELDS: Final = (*FIELDS, *EVENT_FIELDS)


@dataclass(frozen=True, slots=True)
class ContentAccess:
    """The content that one caller may see. Views and use cases require one.

    `allows_name`: returns whether the caller may see content of jobs with this name, even if `is_granted` is false.
    """

    is_granted: bool
    redactor: Redactor
    allows_name: Callable[[str], bool] | None = field(default=None, compare=False)

    def for_name(self, name: str) -> "ContentAccess":
        """Return the access to jobs of one name."""
        if self.is_granted or self.allows_name is None or not self.allows_name(name):
            return self
        return replace(self, is_granted=True)

    # --- keys and matchers

    def cover_of(self, path: Path | None) -> Cover | None:
        """Return the text that replaces all values at this path, or None if they are shown."""
        if path is None or path.root not in _CONTENT_ROOTS:
            return None
        if self.redactor.meets(_CONTENT_ROOTS[path.root], path.parts):
            return REDACTED
        return None if self.is_granted else HIDDEN

    def key_text(self, key: Path | None, text: str) -> str:
        """Return the value of a constraint's key, as people read it."""
        if cover := self.cover_of(key):
            return cover
        # Other texts are quoted if they begin with these characters, so this must be a map or a list.
        is_composite = text.startswith(("{", "["))
        if key is not None and is_composite and self.redactor.reaches_any_depth(key.root):
            return REDACTED
        return text

    def check_path(self, path: Path | None, loc: Loc) -> None:
        """Raise ForbiddenError if the caller may not distinguish jobs by their values at this path."""
        cover = self.cover_of(path)
        if cover == REDACTED:
            rule = "is redacted, contains a redacted value, or lies within one (see redact_paths)"
            raise _refusal("content_redacted", loc, rule)
        if cover:
            raise _refusal("content_hidden", loc, "reads content of jobs, which the caller may not see")

    def check_matcher(self, document: Mapping[str, Any], loc: Loc) -> None:
        """Raise ForbiddenError if the caller may not select jobs by this matcher, which has already been parsed."""
        for leaf, at in _leaves(document, loc):
            self.check_path(parse_path(leaf["field"], fields=_FIELDS), (*at, "field"))

    def matcher(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the document of a matcher. Cover the constants in it that are compared with content."""
        for kind in ("all", "any"):
            if kind in document:
                return {kind: [self.matcher(member) for member in document[kind]]}
        if "not" in document:
            return {"not": self.matcher(document["not"])}
        cover = self.cover_of(parse_path(document["field"], fields=_FIELDS))
        if cover is None or document["op"] == "exists":
            return dict(document)
        return {**document, "value": [cover] if document["op"] == "in" else cover}

    def constraint(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the document of a constraint, or of one override with its `key`, with content covered."""
        shown = dict(document)
        if shown.get("matcher"):
            shown["matcher"] = self.matcher(shown["matcher"])
        if shown.get("reserve"):
            shown["reserve"] = [{**one, "matcher": self.matcher(one["matcher"])} for one in shown["reserve"]]
        cover = self.cover_of(parse_path(shown["key"])) if shown.get("key") else None
        if shown.get("overrides"):
            shown["overrides"] = [self._override(one, cover) for one in shown["overrides"]]
        if cover and isinstance(shown.get("fair"), Mapping):
            shares = [{**one, "value": cover} for one in shown["fair"]["weights"]]
            shown["fair"] = {**shown["fair"], "weights": shares}
        if cover and "value" in shown:
            shown["value"] = cover
        return shown

    def _override(self, override: Mapping[str, Any], cover: Cover | None) -> Mapping[str, Any]:
        """Return an override with its content covered. `cover` replaces its key value. None: the value is shown."""
        if override.get("match"):
            return {**override, "match": self.matcher(override["match"])}
        return {**override, "value": cover} if cover else override

    # --- texts of errors

    @property
    def error_text_cover(self) -> Cover | None:
        """Return the text that replaces error texts. None: they are shown. If `error.message` is redacted, so are error
        texts, because SDKs copy the text of an exception into this field."""
        if self.redactor.meets("error", ("message",)):
            return REDACTED
        return None if self.is_granted else HIDDEN

    @property
    def shows_error_type(self) -> bool:
        """Return whether types of exceptions are shown. Everybody sees them if they are not redacted."""
        return not self.redactor.meets("error", ("type",))

    def filter(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the document of a job filter, with content covered. A text that is searched for in errors counts as an
        error text. So does the ID of a failure group, which is a digest of an error text.
        """
        shown = dict(document)
        if shown.get("text") and (cover := self.error_text_cover):
            shown["text"] = cover
        if shown.get("matcher"):
            shown["matcher"] = self.matcher(shown["matcher"])
        if not self.is_granted:
            shown.pop("failure_group", None)
        return shown

    def audited(self, action: str, document: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return a document of the audit log (a constraint, an override, a filter of jobs) with content covered."""
        if not isinstance(document, Mapping):
            return document
        kind = action.partition(".")[0]
        if kind == "jobs" and isinstance(document.get("filter"), Mapping):
            return {**document, "filter": self.filter(document["filter"])}
        if kind == "definition" and document.get("matcher"):
            return {**document, "matcher": self.matcher(document["matcher"])}
        if kind != "constraint":
            return dict(document)
        if "value" in document and "key" not in document and self.redactor.has("argument", "headers"):
            # Hide the value: an earlier version wrote this entry, and did not record its key.
            return {**document, "value": REDACTED}
        return self.constraint(document)

    def check_error_text(self, loc: Loc) -> None:
        """Raise ForbiddenError if the caller may not look for a text in errors."""
        cover = self.error_text_cover
        if cover == REDACTED:
            raise _refusal("content_redacted", loc, "searches the texts of errors, which are redacted")
        if cover:
            raise _refusal(
                "content_hidden", loc, "searches the texts of errors, which the caller may not see"
            )

    def check_failure_group(self, loc: Loc) -> None:
        """Raise ForbiddenError if the caller may not select jobs by a failure group."""
        if not self.is_granted:
            raise _refusal(
                "content_hidden", loc, "distinguishes texts of errors, which the caller may not see"
            )


def content_access(
    principal: Principal | None, *, viewers_see_content: bool, redact_paths: Sequence[str]
) -> ContentAccess:
    """Return the access of a caller. A caller sees content if it may read and may also act on jobs or push them."""
    redactor = redactor_of(tuple(redact_paths))
    scopes = principal.scopes if principal else frozenset[Scope]()
    if principal is None or Scope.READ not in scopes:
        return ContentAccess(False, redactor)
    if viewers_see_content or Scope.OPERATE in scopes:
        return ContentAccess(True, redactor)
    if Scope.PUSH not in scopes:
        return ContentAccess(False, redactor)
    return ContentAccess(principal.allows_name is None, redactor, principal.allows_name)


def full_access(redact_paths: Sequence[str]) -> ContentAccess:
    """Return access to everything that anybody may see."""
    return ContentAccess(True, redactor_of(tuple(redact_paths)))


def no_access(redact_paths: Sequence[str]) -> ContentAccess:
    """Return access to no content, for answers that are the same for every caller."""
    return ContentAccess(False, redactor_of(tuple(redact_paths)))


def _refusal(code: str, loc: Loc, rule: str) -> ForbiddenError:
    place = ".".join(map(str, loc))
    return ForbiddenError(f"{place} {rule}", code=code, errors=[FieldError(loc, rule)])


def _leaves(document: Mapping[str, Any], loc: Loc) -> Iterator[tuple[Mapping[str, Any], Loc]]:
    if "field" in document:
        yield document, loc
    if "not" in document:
        yield from _leaves(document["not"], (*loc, "not"))
    for kind in ("all", "any"):
        for at, member in enumerate(document.get(kind, ())):
            yield from _leaves(member, (*loc, kind, at))
