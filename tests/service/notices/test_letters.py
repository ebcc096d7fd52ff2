"""Texts of others in messages mention nobody, and mark nothing."""

import pytest

from jqmaster.service.notices.letters import _slack_text


@pytest.mark.parametrize("mention", ["@everyone", "@channel", "@here", "<!channel>", "<@U123>"])
def test_an_error_text_mentions_nobody_in_slack_mattermost_or_discord(mention: str) -> None:
    for text in (mention, f"failed: {mention} look", f"({mention})", f"a\n{mention}"):
        assert mention not in _slack_text(text), text


def test_the_address_of_a_mail_stays_whole() -> None:
    assert _slack_text("ada@example.com is unknown") == "ada@example.com is unknown"
