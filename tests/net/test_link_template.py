"""Links from a job to other systems: a job fills the placeholders, and never chooses where the link leads."""

import pytest

from jqmaster.net.link_template import LinkTemplate, links_of

pytestmark = pytest.mark.req("D28")

FIELDS = {"job_id": "0198", "name": "a/b?c=d&e#f ü", "attempt": 2, "created_ms": 1, "finished_ms": ""}


def test_the_parts_of_a_job_are_filled_in() -> None:
    links = links_of(
        [
            "Logs=https://logs.example/?job={job_id}&attempt={attempt}",
            "Trace_view=http://traces.example:8080/{name}?from={created_ms}&to={finished_ms}",
        ],
        FIELDS,
    )
    assert links == [
        ("Logs", "https://logs.example/?job=0198&attempt=2"),
        ("Trace view", "http://traces.example:8080/a%2Fb%3Fc%3Dd%26e%23f%20%C3%BC?from=1&to="),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "https://logs.example/",
        "=https://logs.example/",
        "Logs=ftp://logs.example/",
        "Logs=javascript:alert({name})",
        "Logs=https://{name}/",
        "Logs=https://{name}.logs.example/",
        "Logs=https:///x",
        "Logs=https://logs.example/{argument}",
        "Logs=https://logs.example/{}",
        "Logs=https://logs.example/{job_id",
        "Logs=https://logs.example/job_id}",
        "Logs=https://logs.example/ x",
        "Logs=https://logs.example/" + "x" * 1000,
        "L" * 41 + "=https://logs.example/",
    ],
)
def test_a_template_that_could_lead_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        LinkTemplate.parse(text)


@pytest.mark.parametrize("name", [".", ".."])
def test_a_job_named_by_dots_leads_no_link_to_another_place(name: str) -> None:
    templates = [
        "Within=https://logs.example/x/{name}/y", "At_the_end=https://logs.example/{name}?a=1",
        "Query=https://logs.example/?name={name}", "Beside=https://logs.example/a-{name}/",
        "Own=https://logs.example/a/../{job_id}",
    ]  # fmt: skip
    assert links_of(templates, FIELDS | {"name": name}) == [
        ("Query", f"https://logs.example/?name={name}"),
        ("Beside", f"https://logs.example/a-{name}/"),
        ("Own", "https://logs.example/a/../0198"),
    ]
