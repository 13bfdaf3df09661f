"""How nodes are switched off and on: back-ends, and which of them has which node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

Verb = Literal["suspend", "resume", "restart"]
VERBS: tuple[Verb, ...] = ("suspend", "resume", "restart")
"""Switch off, switch on, and off and on again: what brings back a node that never went off."""

KINDS = ("ssh", "ipmi", "redfish", "command")

_PLACEHOLDER = re.compile(r"%(.?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PowerBackend:
    """One way to some nodes. In `host` and the commands %n stands for the node's name.

    In the commands, besides, %h for the host, %u the user, %p the password file, %s the Redfish
    system, %c the file of certificates, %% for a percent sign.
    """

    nodes: tuple[str, ...]
    """Names; * and ? stand for any characters, and any one."""
    kind: str
    verbs: tuple[Verb, ...]
    host: str = ""
    """The host that is asked: a BMC's name, or where to connect by SSH."""
    port: int = 22
    user: str = ""
    key_file: str = ""
    known_hosts: str = ""
    password_file: str = ""
    password_variable: str = ""
    """The commands get the password file's first line in this environment variable."""
    system: str = "1"
    ca_file: str = ""
    suspend: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()

    def has(self, node: str) -> bool:
        """Whether `node` is one of its nodes."""
        return any(fnmatchcase(node, pattern) for pattern in self.nodes)

    @property
    def is_host_of_node(self) -> bool:
        """Whether each node has a host of its own: then the host says which node is meant."""
        return "n" in placeholders(self.host)

    def host_of(self, node: str) -> str:
        """The host to ask about `node`."""
        return filled(self.host, {"n": node})

    def argv(self, verb: Verb, node: str) -> tuple[str, ...]:
        """The command for `verb`, () where it is none that has one."""
        template = {"suspend": self.suspend, "resume": self.resume, "restart": self.restart}[verb]
        values = {
            "n": node,
            "h": self.host_of(node),
            "u": self.user,
            "p": self.password_file,
            "s": self.system,
            "c": self.ca_file,
        }
        return tuple(filled(word, values) for word in template)


@dataclass(frozen=True)
class PowerBackends:
    """The back-ends of a site, in order."""

    tables: tuple[PowerBackend, ...] = ()

    def of(self, node: str, verb: Verb) -> PowerBackend | None:
        """The first that has the node and can do this, None where there is none."""
        return next((b for b in self.tables if verb in b.verbs and b.has(node)), None)


NO_BACKENDS = PowerBackends()


def filled(template: str, values: dict[str, str]) -> str:
    """`template` with values in the places of ``%x``; ``%%`` is a percent sign."""
    return _PLACEHOLDER.sub(lambda m: "%" if m[1] == "%" else values[m[1]], template)


def placeholders(template: str) -> Iterator[str]:
    """The letters behind a percent sign; "" for one at the end."""
    return (match[1] for match in _PLACEHOLDER.finditer(template))
