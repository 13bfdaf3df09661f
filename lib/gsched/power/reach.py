"""One try to switch one node, by whatever back-end has it."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.errors import ConfigError, UnavailableError
from gsched.model.power import PowerBackend, Verb
from gsched.power import child
from gsched.power.limits import Limits
from gsched.power.own_files import OwnFileError
from gsched.power.passwords import read_password


def switch(
    backend: PowerBackend, verb: Verb, node: str, limits: Limits, held: Sequence[int] = ()
) -> None:
    """Let the back-end carry out `verb`; returns when it has said that it has.

    A command holds `held`, the node's lock, until its own end, also where this process is killed.
    Raises UnavailableError or TryAgainError where another try may help, ConfigError or
    PermissionDeniedError where none will; OwnFileError, one of the former, where the fault is this
    host's and not the node's.
    """
    if backend.kind == "ssh":
        from gsched.power import ssh  # slow to load, and few sites need it

        ssh.tell(backend, verb, node, limits)
        return
    password = read_password(backend)
    variables = {backend.password_variable: password.text} if backend.password_variable else {}
    timeout_s = min(limits.command_s, limits.whole_s)
    argv = backend.argv(verb, node)
    try:
        ended = child.run(argv, variables, timeout_s, held)
    except ConfigError as error:
        raise OwnFileError(error.message, error.hint) from None
    if ended.status:
        how = f"exit status {ended.status}" if ended.status > 0 else f"signal {-ended.status}"
        said = " ".join(password.struck_from(ended.words).split())
        raise UnavailableError(f"{argv[0]}: {how}{f': {said}' if said else ''}")
