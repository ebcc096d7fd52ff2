"""The web UI's states are those of the domain."""

from jqmaster.spec import ui_states


def test_the_states_of_the_web_ui_are_generated() -> None:
    for path, text in ui_states.files().items():
        assert path.read_text() == text, "run: make docs"
