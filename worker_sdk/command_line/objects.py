"""Find the objects of the user's modules that a command line names."""

import importlib
import os
import pkgutil
import sys
import traceback
from typing import Any, NoReturn

from worker_sdk.command_line.ends import USAGE, CommandError
from worker_sdk.transport.suggestions import suggestion


def object_at(target: str) -> Any:
    """Return the object that `module:name` names. Raise CommandError if there is no such object."""
    module_name, _, path = target.partition(":")
    if not module_name or not path:
        raise CommandError(USAGE, f"{target}: expected MODULE:OBJECT")
    found: Any = _imported(module_name)
    for name in path.split("."):
        if not hasattr(found, name):
            raise CommandError(USAGE, f"{module_name} has no {path}{_others(found, name)}")
        found = getattr(found, name)
    return found


def _others(holder: Any, name: str) -> str:
    """Return a text that suggests a similar object, or lists the objects that a worker can run."""
    from worker_sdk import Tasks, Worker

    runnable = sorted(one for one, value in vars(holder).items() if isinstance(value, (Tasks, Worker)))
    if found := suggestion(name, runnable):
        return found
    return f"; it has {', '.join(runnable)}" if runnable else ""


def discovered(package: str) -> list[Any]:
    """Return the Tasks in the package's modules that are named `tasks` or lie in a subpackage of that name. Raise
    CommandError if there are no such Tasks."""
    from worker_sdk import Tasks

    modules = [root := _imported(package)]
    if "__path__" in vars(root):
        found = [
            one.name for one in pkgutil.walk_packages(root.__path__, f"{package}.", onerror=lambda _: None)
        ]
        modules += [_imported(name) for name in found if "tasks" in name.split(".")[1:]]
    tasks = {id(one): one for module in modules for one in vars(module).values() if isinstance(one, Tasks)}
    if not tasks:
        raise CommandError(USAGE, f"no worker_sdk.Tasks in modules of {package} that are named tasks")
    return list(tasks.values())


def _imported(module_name: str) -> Any:
    """Return the module. Raise CommandError with the reason if it cannot be imported."""
    if module_name.startswith(".") or "/" in module_name or module_name.endswith(".py"):
        name = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise CommandError(USAGE, f"{module_name} is not the name of a module; did you mean {name}?")
    # Add the current directory, as `python -m` does: the module is usually there.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            _fail_to_import(module_name, error)
        raise CommandError(USAGE, f"no module {error.name} in {os.getcwd()} or on Python's path") from None
    except Exception as error:  # the user's module may raise anything
        _fail_to_import(module_name, error)


def _fail_to_import(module_name: str, error: Exception) -> NoReturn:
    """Show the traceback of the module, without the frames of this command and the import system."""
    frames = error.__traceback__
    while frames is not None and _is_import_machinery(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    shown = "".join(traceback.format_exception(error.with_traceback(frames)))
    raise CommandError(USAGE, f"module {module_name} cannot be imported\n{shown.rstrip()}") from None


def _is_import_machinery(file: str) -> bool:
    return file in (__file__, importlib.__file__) or file.startswith("<frozen importlib")
