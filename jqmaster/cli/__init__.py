"""The `jqmaster` command."""


def main() -> None:
    """Run the command line. Exit codes: `jqmaster.cli.console.exits`."""
    from jqmaster.cli.root import app

    app()
