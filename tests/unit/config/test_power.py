"""[[power.backends]]: what is taken, what is refused, and what is run."""

from __future__ import annotations

import pytest

from gsched.config.power import parse_backends
from gsched.errors import ConfigError

SSH = {"nodes": ["gn[1-4]"], "kind": "ssh", "user": "root", "key_file": "/k", "known_hosts": "/h"}
IPMI = {"nodes": ["gn*"], "kind": "ipmi", "host": "%n-bmc", "user": "adm", "password_file": "/p"}
COMMAND = {"nodes": ["x"], "kind": "command", "suspend": ["/s", "%n"], "resume": ["/r", "%n"]}


def test_the_first_table_that_has_the_node_and_the_verb_counts():
    backends = parse_backends([SSH, IPMI, COMMAND])
    ssh, ipmi, command = backends.tables
    assert backends.of("gn3", "suspend") is ssh
    assert backends.of("gn3", "resume") is backends.of("gn3", "restart") is ipmi
    assert backends.of("gn9", "suspend") is ipmi
    assert backends.of("x", "resume") is command
    assert backends.of("x", "restart") is backends.of("y", "suspend") is None
    assert (ssh.host, ssh.port, ssh.host_of("gn3")) == ("%n", 22, "gn3")


def test_commands_are_words_with_their_places_filled():
    ipmi = parse_backends([IPMI]).tables[0]
    assert ipmi.argv("restart", "gn7") == (
        "/usr/bin/ipmitool", "-I", "lanplus", "-H", "gn7-bmc", "-U", "adm", "-f", "/p",
        "chassis", "power", "cycle",
    )  # fmt: skip
    redfish = {"nodes": ["gn*"], "kind": "redfish", "host": "%n", "password_file": "/n"}
    argv = parse_backends([redfish | {"system": "437"}]).tables[0].argv("suspend", "gn7")
    assert "https://gn7/redfish/v1/Systems/437/Actions/ComputerSystem.Reset" in argv
    assert argv[-1] == '{"ResetType": "GracefulShutdown"}'
    own = parse_backends([COMMAND | {"suspend": ["/s", "%%%n;%h", "$(x)"], "host": "h"}]).tables[0]
    assert own.argv("suspend", "x") == ("/s", "%x;h", "$(x)")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([1], "must be a list of tables"),
        ({**SSH, "kind": "telnet"}, "kind is 'telnet'"),
        ({**SSH, "usr": "x"}, "unknown key usr"),
        ({**SSH, "suspend": ["/x"]}, "suspend is not for the kind ssh"),
        ({**SSH, "user": ""}, "user is missing"),
        ({**SSH, "nodes": []}, "nodes is missing"),
        ({**SSH, "nodes": ["gn[1"]}, "nodes: not a host list"),
        ({**SSH, "key_file": "k"}, "no absolute path"),
        ({**SSH, "port": 0}, "port is 0"),
        ({**SSH, "port": "22"}, "must be a whole number"),
        ({**SSH, "host": "%n%q"}, "%q, which stands for nothing"),
        ({**SSH, "verbs": ["resume"]}, "a node that sleeps answers no SSH"),
        ({**SSH, "verbs": ["halt"]}, "verbs has 'halt'"),
        ({**IPMI, "password_file": ""}, "password_file is missing"),
        ({**COMMAND, "suspend": ["s"]}, "no absolute path"),
        ({**COMMAND, "suspend": "/s"}, "must be a list of texts"),
        ({**COMMAND, "suspend": ["/s", "a\0b"]}, "NUL character"),
        ({**COMMAND, "suspend": ["/s", "%p"]}, "%p, which stands for nothing"),
        ({**COMMAND, "suspend": ["/s", "50%"]}, "%, which stands for nothing"),
        ({**COMMAND, "verbs": ["restart"]}, "no command to restart"),
        ({**COMMAND, "password_variable": "A B", "password_file": "/p"}, "no name of an env"),
        ({**COMMAND, "password_variable": "PW"}, "has no password_file"),
        ({"nodes": ["x"], "kind": "command"}, "no command to suspend or resume"),
    ],
)
def test_what_does_not_fit_is_named(table, says):
    with pytest.raises(ConfigError) as caught:
        parse_backends([table] if isinstance(table, dict) else table)
    assert says in caught.value.message
