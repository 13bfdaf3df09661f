from __future__ import annotations

import pytest

from gsched.config.address import parse_address
from gsched.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("login1:7321", ("login1", 7321)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("head.cluster.example:80", ("head.cluster.example", 80)),
    ],
)
def test_addresses(text, parsed):
    assert parse_address(text) == parsed


@pytest.mark.parametrize(
    "text", ["", "login1", "login1:", ":80", "::1:80", "[::1]", "a b:80", "a:65536", "a:-1", "a:8a"]
)
def test_no_addresses(text):
    with pytest.raises(ConfigError, match="is no host:port"):
        parse_address(text)
