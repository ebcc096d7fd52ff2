"""Questions to people, and their answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from worker_sdk.shown import without_content

_NO_TIME: Final = datetime.fromtimestamp(0, UTC)
APPROVE: Final = "approve"
REJECT: Final = "reject"


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice that answers a form.

    * `value`: the name of the choice in the answer: letters, digits and `_ . -`.
    * `label`: the text of the button. Default: `value`. For `approve` and `reject`, the default is a text in the
      reader's language.
    * `needs_comment`: an answer with this choice must have a comment.
    * `skips_fields`: an answer with this choice has no values, even if fields are required.

    For example:

        later = Choice("later", "Ask me next week", skips_fields=True)
    """

    value: str
    label: str = ""
    needs_comment: bool = False
    skips_fields: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """A question to people. The address of a challenge with a form shows a page on which people answer it.

    * `title`: the question.
    * `description`: what people need to know to answer, as plain text with line breaks.
    * `choices`: the ways to answer. Default: approve or reject. A rejection skips the fields.
    * `comment`: `"optional"`, `"required"` or `"none"`.
    * `fields`: JSON Schema of an object with at most 20 fields to fill in. Each field has a type, and may have `title`,
      `description` and `default`. The type is `string`, `integer`, `number` or `boolean`. A `string` may have `enum`,
      `minLength`, `maxLength`, and the `format` `date`, `email` or `uri`. An `integer` or a `number` may have `enum`,
      `minimum` and `maximum`.

    For example:

        form = Form("Refund order 7?", "It was damaged.", comment="required")
    """

    title: str
    description: str = ""
    choices: Sequence[Choice] = (Choice(APPROVE), Choice(REJECT, skips_fields=True))
    comment: Literal["none", "optional", "required"] = "optional"
    fields: Mapping[str, Any] | None = None

    def request(self) -> dict[str, Any]:
        """Return the form in the format that masters accept.

        For example:

            print(Form("Refund order 7?").request()["choices"])
        """
        return {
            "title": self.title,
            "description": self.description,
            "choices": [
                {
                    "value": one.value,
                    "label": one.label,
                    "needs_comment": one.needs_comment,
                    "skips_fields": one.skips_fields,
                }
                for one in self.choices
            ],
            "comment": self.comment,
            "fields": None if self.fields is None else dict(self.fields),
        }


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """The answer of a person.

    * `choice`: the value of the choice.
    * `comment`: the comment. Empty: the person wrote no comment.
    * `values`: the values of the fields that were filled in, by name.
    * `by`: the person, such as `user:ada`, as the audit log names them. None: somebody who had the link.
    * `address`: the network address that the answer came from.
    * `at`: when the master received it, in UTC.

    For example:

        answer = FormAnswer("approve", by="user:ada")
        print(answer.is_approved)
    """

    choice: str
    comment: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    by: str | None = None
    address: str = ""
    at: datetime = _NO_TIME

    def __repr__(self) -> str:
        return without_content(self, "comment", "values")

    @property
    def is_approved(self) -> bool:
        """Return whether the choice is `approve`."""
        return self.choice == APPROVE


def answer_of(told: Any, at: datetime) -> FormAnswer:
    """Return the answer in the body of a callback. `at`: when the callback came. Raise ValueError if the body has no
    answer to a form."""
    if not isinstance(told, dict) or not isinstance(told.get("choice"), str):
        raise ValueError("the callback is not the answer to a form")
    return FormAnswer(
        told["choice"],
        told.get("comment") or "",
        told.get("values") or {},
        told.get("by"),
        told.get("address") or "",
        at,
    )
