"""One try to switch one node, by whatever back-end has it."""

from __future__ import annotations

from pathlib import Path

from gsched.errors import ConfigError, UnavailableError
from gsched.model.power import PowerBackend, Verb
from gsched.power import child
from gsched.power.limits import Limits
from gsched.secret_files import read_secret


def switch(backend: PowerBackend, verb: Verb, node: str, limits: Limits) -> None:
    """Let the back-end carry out `verb`; returns when it has said that it has.

    Raises UnavailableError or TryAgainError where another try may help, ConfigError or
    PermissionDeniedError where none will.
    """
    if backend.kind == "ssh":
        from gsched.power import ssh  # slow to load, and few sites need it

        ssh.tell(backend, verb, node, limits)
        return
    secret = _password(backend)
    variables = {backend.password_variable: secret} if backend.password_variable else {}
    timeout_s = min(limits.command_s, limits.whole_s)
    argv = backend.argv(verb, node)
    ended = child.run(argv, variables, timeout_s)
    if ended.status:
        how = f"exit status {ended.status}" if ended.status > 0 else f"signal {-ended.status}"
        words = ended.words.replace(secret, "***") if secret else ended.words
        said = f": {' '.join(words.split())}" if words else ""
        raise UnavailableError(f"{argv[0]}: {how}{said}")


def _password(backend: PowerBackend) -> str:
    """The first line of the password file; of redfish's it is no password alone."""
    if not backend.password_file:
        return ""
    text = read_secret(Path(backend.password_file))
    if not text.strip():
        raise ConfigError(f"{backend.password_file}, which should hold a password, is empty")
    return text.splitlines()[0]
