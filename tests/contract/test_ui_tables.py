"""The web UI's tables match those of the domain."""

from jqmaster.spec import ui_tables


def test_the_tables_of_the_web_ui_are_generated() -> None:
    for path, text in ui_tables.files().items():
        assert path.read_text() == text, "run: make docs"
