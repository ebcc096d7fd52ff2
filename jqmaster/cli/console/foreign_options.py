"""Options of other job queues on the command line, and the corresponding options of this program."""

from typing import Any


def suggest_option(error: Exception) -> None:
    """Add a suggestion to the error for an unknown option, if the command has the option that the caller may
    mean."""
    # Typer uses its own copy of Click or the installed Click. So recognize the class of the error by its
    # attributes.
    name, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if not isinstance(name, str) or context is None or not hasattr(error, "possibilities"):
        return
    from worker_sdk.transport.option_names import meant_option

    known = _options_of(context)
    if meant := meant_option(name, known):
        error.possibilities = [known[meant]]


def _options_of(context: Any) -> dict[str, str]:
    """Return the options of the command, such as `--max-jobs`, by name in the form `max_jobs`."""
    options = [one for parameter in context.command.get_params(context) for one in parameter.opts]
    return {one.lstrip("-").replace("-", "_"): one for one in options if one.startswith("--")}
