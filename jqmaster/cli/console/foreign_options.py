"""Options of other job queues on the command line, and the options here that correspond to them."""

from typing import Any


def suggest_option(error: Exception) -> None:
    """Add to the error for an unknown option the option that the caller may mean, if the command has it."""
    # Typer contains its own copy of Click, or uses the installed one, so the class is known only by its attributes.
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
