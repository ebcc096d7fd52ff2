"""The `jqmaster` command."""


def main() -> None:
    """Run the command line. Exit codes: `jqmaster.cli.exits`."""
    from jqmaster.cli.root import app

    app()
