"""System checks name faulty settings and their remedy."""

from typing import Any

import django
import pytest
from django.conf import settings
from django.core import checks
from django.test import override_settings

from tests.support.django_site import BACKEND, tasks
from worker_sdk.django import backport_checks
from worker_sdk.django.backport_checks import problems_of_backport
from worker_sdk.django.tasks_api import task_backends

pytestmark = pytest.mark.req("D22")


def found(setting: Any, **settings: Any) -> dict[str, Any]:
    with override_settings(TASKS=setting, **settings):
        return {one.id: one for one in task_backends["default"].check()}


def test_good_settings_have_no_problem() -> None:
    assert found(tasks()) == {}
    assert [one for one in checks.run_checks() if str(one.id).startswith("jqmaster")] == []


@pytest.mark.parametrize(
    ("number", "options"),
    [
        ("E001", {"tiemout": 1}),
        ("E002", {"enqueue": "sometimes"}),
        ("E004", {"database": "nowhere"}),
        ("E005", {"timeout": 1, "expires": "soon"}),
        ("E006", {"commands": ["no_such_command"]}),
        ("E010", {"requires": "gpu"}),
        ("E011", {"push_in_background": 1}),
        ("E011", {"push_in_background": True, "enqueue": "on_commit"}),
        ("E010", {"requires": {"gpu": 1}}),
        ("E010", {"requires": {"": "1"}}),
        ("E010", {"requires": {"gpu": "1" * 201}}),
        ("E010", {"requires": {str(n): "" for n in range(9)}}),
    ],
)
def test_each_problem_of_the_options_has_a_remedy(number: str, options: dict[str, Any]) -> None:
    problems = found(tasks(**options))
    assert list(problems) == [f"jqmaster.{number}"]
    assert problems[f"jqmaster.{number}"].hint


def test_an_outbox_without_its_application_is_an_error() -> None:
    apps = ["tests.sdk.django.blog"]
    problems = found(tasks(), INSTALLED_APPS=apps)
    assert "INSTALLED_APPS" in problems["jqmaster.E003"].hint
    assert found(tasks(enqueue="on_commit"), INSTALLED_APPS=apps) == {}


def test_queues_that_nobody_can_know_and_a_missing_master_are_warnings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("JQMASTER_URL", raising=False)
    setting = {"default": {"BACKEND": BACKEND, "QUEUES": []}}
    assert list(found(setting, DEBUG=False)) == ["jqmaster.W001", "jqmaster.W002"]


@pytest.mark.skipif(django.VERSION >= (6, 0), reason="this Django has tasks of its own")
def test_a_site_without_the_backport_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(**settings: Any) -> list[Any]:
        with override_settings(**settings):
            return problems_of_backport(None)

    assert told() == []
    without = [one for one in settings.INSTALLED_APPS if one != "django_tasks"]
    assert told(INSTALLED_APPS=without, TASKS={"default": {"BACKEND": "django_tasks.backends.Other"}}) == []
    # Nobody else checks the backends of such a site.
    problems = told(INSTALLED_APPS=without, TASKS=tasks(tiemout=1))
    assert [one.id for one in problems] == ["jqmaster.W005", "jqmaster.E001"]
    assert 'Add "django_tasks" to INSTALLED_APPS' in problems[0].hint
    monkeypatch.setattr(backport_checks, "find_spec", lambda name: None)
    (problem,) = told(INSTALLED_APPS=without)
    assert problem.id == "jqmaster.E012"
    assert "the package django-tasks is not installed" in problem.msg
    assert "pip install django-tasks" in problem.hint


def ui(given: dict[str, Any], **settings: Any) -> dict[str, Any]:
    with override_settings(JQMASTER_UI=given, **settings):
        return {one.id: one for one in checks.run_checks() if str(one.id).startswith("jqmaster")}


@pytest.mark.req("D26")
@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        ({"secret": "s"}, ["E008"]),
        ({"secret": "s", "mastre": "x"}, ["E007", "E008"]),
        ({"secret": "s", "role": "nowhere.role"}, ["E008", "E009"]),
        ({"secret": "s", "role": 7}, ["E008", "E009"]),
        ({}, ["E008", "W003"]),
        ({"secret": "s", "master": ["http://10.0.0.1:8080", "https://jobs.example.org"]}, ["E008", "W004"]),
    ],
)
def test_each_problem_of_the_web_ui_in_a_site_has_a_remedy(
    given: dict[str, Any], numbers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JQMASTER_URL", raising=False)
    monkeypatch.delenv("JQMASTER_LOGIN_PROXY_SECRET", raising=False)
    problems = ui(given)
    assert sorted(problems) == [f"jqmaster.{number}" for number in numbers]
    assert all(one.hint for one in problems.values())
