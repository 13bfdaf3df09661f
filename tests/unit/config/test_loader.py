from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from gsched.config import loader
from gsched.config.settings import Settings
from gsched.errors import ConfigError

EXAMPLE = Path(__file__).parents[3] / "slurm_plugins" / "etc" / "gsched.toml"


@pytest.fixture
def no_system_file(tmp_path, monkeypatch):
    monkeypatch.setattr(loader, "SYSTEM_FILE", tmp_path / "etc" / "gsched.toml")
    return tmp_path


@pytest.fixture
def load_text(tmp_path):
    """Load one configuration file with this text (and these environment variables)."""

    def load(text, **environ):
        path = tmp_path / "site.toml"
        path.write_text(text, encoding="utf-8")
        return loader.load({"GSCHED_CONFIG": str(path), **environ})

    return load


def test_without_files_and_variables_the_defaults_hold(no_system_file):
    assert loader.load({}) == Settings()


def test_every_kind_of_value_is_read(load_text, tmp_path):
    settings = load_text(
        'state_dir = "/srv/gsched"\n'
        '[database]\nurl = "sqlite:////srv/h.db"\n'
        "[slurm]\ncommand_timeout_s = 5\n"
        '[daemon]\npolicy = "fifo"\nwrite_budget = 20\npartitions = ["gpu", "gpu-short"]\n'
        "[daemon.knobs]\nhalf_life_s = 60\n"
    )
    assert settings.state_dir == Path("/srv/gsched")
    assert settings.database_url == "sqlite:////srv/h.db"
    assert settings.slurm.command_timeout_s == 5.0
    assert settings.daemon.policy == "fifo"
    assert settings.daemon.write_budget == 20
    assert settings.daemon.partitions == ("gpu", "gpu-short")
    assert settings.daemon.knobs == {"half_life_s": 60.0}
    assert settings.sources == (tmp_path / "site.toml",)


def test_a_users_file_wins_key_by_key_over_the_system_file(no_system_file):
    system = no_system_file / "etc" / "gsched.toml"
    user = no_system_file / "home" / "gsched" / "gsched.toml"
    system.parent.mkdir()
    user.parent.mkdir(parents=True)
    system.write_text('[daemon]\npolicy = "fifo"\ninterval_s = 7\n')
    user.write_text('[daemon]\npolicy = "qssf"\n')
    settings = loader.load({"XDG_CONFIG_HOME": str(no_system_file / "home")})
    assert (settings.daemon.policy, settings.daemon.interval_s) == ("qssf", 7.0)
    assert settings.sources == (system, user)


def test_the_users_folder_defaults_to_dot_config(no_system_file):
    user = no_system_file / ".config" / "gsched" / "gsched.toml"
    user.parent.mkdir(parents=True)
    user.write_text('state_dir = "/x"\n')
    assert loader.load({"HOME": str(no_system_file)}).state_dir == Path("/x")


def test_gsched_config_names_the_only_file(no_system_file, load_text):
    system = no_system_file / "etc" / "gsched.toml"
    system.parent.mkdir()
    system.write_text('state_dir = "/from/system"\n')
    assert load_text("").state_dir == Settings().state_dir


def test_a_missing_file_that_is_named_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"GSCHED_CONFIG names /.*/none\.toml, which is no file"):
        loader.load({"GSCHED_CONFIG": str(tmp_path / "none.toml")})


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[daemon]\npolcy = 'x'\n", "unknown key daemon.polcy", "did you mean daemon.policy?"),
        ("[demon]\n", "unknown key demon", "did you mean daemon?"),
        ("zzz = 1\n", "unknown key zzz", "known here: state_dir, database, slurm, predict, daemon"),
        ("sources = ['x']\n", "unknown key sources", ""),
        ("daemon = 3\n", "daemon is 3, but it is a table", "write [daemon]"),
        ("[daemon]\ninterval_s = 'x'\n", "daemon.interval_s is 'x', but it must be a number", ""),
        ("[daemon]\ninterval_s = true\n", "daemon.interval_s is True", ""),
        ("[daemon]\ninterval_s = nan\n", "daemon.interval_s is nan, but it must be a number", ""),
        ("[daemon]\ninterval_s = 0\n", "daemon.interval_s is 0, allowed is 1 to 86400", ""),
        ("[daemon]\nquantum = 2.5\n", "daemon.quantum is 2.5, but it must be a whole number", ""),
        ("[daemon]\nwrite_budget = true\n", "write_budget is True, but it must be a whole", ""),
        ("[daemon]\npartitions = 'gpu'\n", "daemon.partitions is 'gpu', but it must be a list", ""),
        ("[daemon]\npartitions = [1]\n", "daemon.partitions is [1], but it must be a list", ""),
        ("[daemon]\nknobs = {a = 'b'}\n", "daemon.knobs is {'a': 'b'}, but it must be a table", ""),
        ("[daemon]\nknobs = 1\n", "daemon.knobs is 1, but it must be a table of numbers", ""),
        ("[database]\nurl = 1\n", "database.url is 1, but it must be a text", ""),
        ("state_dir = 'state'\n", "state_dir is 'state', but it must be an absolute path", ""),
        ("[predict]\nestimator = 'ai'\n", "is 'ai', allowed is model, constant, table", ""),
        ("[daemon\n", "is not valid TOML", ""),
        ("a = 1\na = 2\n", "is not valid TOML", ""),
    ],
)
def test_what_does_not_fit_is_named_with_its_file(load_text, tmp_path, text, message, hint):
    with pytest.raises(ConfigError) as caught:
        load_text(text)
    assert caught.value.message.startswith(str(tmp_path / "site.toml") + ": ")
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.exit_code == 78


def test_a_file_that_is_no_utf8_is_named(tmp_path):
    path = tmp_path / "site.toml"
    path.write_bytes(b"[daemon]\npolicy = '\xff'\n")
    with pytest.raises(ConfigError, match=r"site\.toml: is not UTF-8 text \(byte 19\)"):
        loader.load({"GSCHED_CONFIG": str(path)})


def test_a_dangling_link_in_etc_is_named(no_system_file):
    (no_system_file / "etc").mkdir()
    (no_system_file / "etc" / "gsched.toml").symlink_to("nowhere")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        loader.load({})


def test_variables_win_over_files(load_text):
    settings = load_text(
        "[daemon]\ninterval_s = 7\npolicy = 'fifo'\n",
        GSCHED_STATE_DIR="/run/x",
        GSCHED_DATABASE_URL="sqlite:////x.db",
        GSCHED_DAEMON_INTERVAL_S="2.5",
        GSCHED_DAEMON_WRITE_BUDGET="9",
        GSCHED_DAEMON_EXCLUDE_USERS="alice, bob",
        GSCHED_DAEMON_KNOBS="a=1,b=2.5",
    )
    assert settings.state_dir == Path("/run/x")
    assert settings.database.url == "sqlite:////x.db"
    assert settings.daemon.interval_s == 2.5
    assert settings.daemon.write_budget == 9
    assert settings.daemon.exclude_users == ("alice", "bob")
    assert settings.daemon.knobs == {"a": 1.0, "b": 2.5}
    assert settings.daemon.policy == "fifo"


def test_an_empty_variable_counts_as_unset(load_text):
    settings = load_text("[daemon]\npolicy = 'fifo'\n", GSCHED_DAEMON_POLICY="")
    assert settings.daemon.policy == "fifo"


@pytest.mark.parametrize(
    ("name", "value", "message", "hint"),
    [
        ("GSCHED_DAEMON_POLCY", "x", "unknown environment variable GSCHED_DAEMON_POLCY", "POLICY?"),
        ("GSCHED_PREDICT_ZZZZZZZZ", "x", "GSCHED_PREDICT_ZZZZZZZZ", "see gsched.toml(5)"),
        ("GSCHED_DAEMON_QUANTUM", "1.5", "GSCHED_DAEMON_QUANTUM: daemon.quantum is '1.5'", ""),
        ("GSCHED_DAEMON_KNOBS", "a", "daemon.knobs is {'a': ''}", ""),
        ("GSCHED_STATE_DIR", "x", "GSCHED_STATE_DIR: state_dir is 'x'", ""),
    ],
)
def test_a_wrong_variable_is_named(load_text, name, value, message, hint):
    with pytest.raises(ConfigError) as caught:
        load_text("", **{name: value})
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_variables_of_other_purposes_are_left_alone(load_text):
    assert load_text("", GSCHED_DEBUG="1", GSCHED_TESTBED_DIR="/x").daemon == Settings().daemon


@pytest.mark.parametrize(
    ("mode", "is_refused"), [(0o644, True), (0o660, True), (0o640, False), (0o600, False)]
)
def test_a_password_must_not_lie_in_a_file_for_everybody(tmp_path, mode, is_refused):
    path = tmp_path / "site.toml"
    path.write_text("[database]\nurl = 'postgresql://gsched:secret@db/gsched'\n")
    path.chmod(mode)
    if not is_refused:
        assert "secret" in loader.load({"GSCHED_CONFIG": str(path)}).database.url
        return
    with pytest.raises(ConfigError, match="holds a password") as caught:
        loader.load({"GSCHED_CONFIG": str(path)})
    assert f"chmod 640 {path}" in caught.value.hint
    assert "secret" not in caught.value.message + caught.value.hint


def test_a_password_in_a_url_that_is_not_understood_is_refused_as_well(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text("[database]\nurl = 'postgresql://gsched:secret@[db/gsched'\n")
    with pytest.raises(ConfigError, match="holds a password"):
        loader.load({"GSCHED_CONFIG": str(path)})


def test_a_password_among_the_options_of_a_url_is_one(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text("[database]\nurl = 'postgresql://gsched@db/gsched?password=secret'\n")
    with pytest.raises(ConfigError, match="holds a password"):
        loader.load({"GSCHED_CONFIG": str(path)})


def test_the_file_of_a_password_goes_along_with_a_servers_url(load_text):
    text = "[database]\nurl = '{}'\npassword_file = '/etc/gsched/db password'\n"
    told = load_text(text.format("mariadb://gsched@db/gsched")).database_url
    assert told == "mariadb://gsched@db/gsched?password_file=/etc/gsched/db%20password"
    told = load_text(text.format("postgresql://gsched@db/gsched?sslmode=require")).database_url
    assert told.endswith("?sslmode=require&password_file=/etc/gsched/db%20password")
    told = load_text(text.format("sqlite:////srv/history.db")).database_url
    assert told == "sqlite:////srv/history.db"


@pytest.mark.parametrize("url", ["postgresql://gsched@db:5432/gsched", "postgresql://[db/gsched"])
def test_a_url_without_password_may_be_read_by_everybody(load_text, url):
    assert load_text(f"[database]\nurl = '{url}'\n").database_url == url


def test_limits_and_choices_name_existing_keys():
    assert set(loader.BOUNDS) | set(loader.CHOICES) <= set(loader.known_keys())


def test_defaults_lie_within_their_limits():
    for key, (low, high) in loader.BOUNDS.items():
        table, name = key.split(".")
        assert low <= getattr(getattr(Settings(), table), name) <= high


def test_the_example_file_shows_every_key_with_its_default(tmp_path):
    text = EXAMPLE.read_text(encoding="utf-8")
    tables = {"database": {}, "slurm": {}, "predict": {}, "submit": {}, "phases": {}}
    tables |= {"daemon": {"knobs": {}, "policy_scope": {}}, "helper": {}, "forecast": {}}
    tables |= {"fairness": {"quotas": {}, "gpu_weights": {}}, "deadlines": {}}
    tables |= {"heartbeat": {}, "jobscript": {}, "power": {}}
    tables |= {"ces": {"least_idle": {}}, "energy": {}}
    assert tomllib.loads(text) == tables
    shown = re.sub(r"^#(\w+ = )", r"\1", text, flags=re.MULTILINE)
    path = tmp_path / "gsched.toml"
    path.write_text(shown, encoding="utf-8")
    settings = loader.load({"GSCHED_CONFIG": str(path)})
    assert settings == Settings(sources=(path,))
    document = tomllib.loads(shown)
    flat = {
        f"{table}.{key}" if isinstance(keys, dict) else table
        for table, keys in document.items()
        for key in (keys if isinstance(keys, dict) else [table])
    }
    assert flat == set(loader.known_keys())


def test_what_leads_to_the_daemon_is_found_in_a_broken_configuration(no_system_file):
    path = no_system_file / "site.toml"
    environ = {"GSCHED_CONFIG": str(path)}
    good = 'state_dir = "/srv/g"\n[daemon]\nsocket = "/run/d"\n'
    path.write_text(good)
    assert loader.load_to_ask(environ) == (loader.load(environ), None)
    for text in (good + "interval_s =\n[x", good + "intervall_s = 3\n", good + "policy = 5\n"):
        path.write_text(text)
        settings, error = loader.load_to_ask(environ)
        assert (str(settings.state_dir), str(settings.daemon_socket)) == ("/srv/g", "/run/d")
        assert isinstance(error, ConfigError)
    environ |= {"GSCHED_STATE_DIR": "/srv/h", "GSCHED_DAEMON_INTERVAL_S": "never"}
    settings, error = loader.load_to_ask(environ)
    assert str(settings.state_dir) == "/srv/h"
    path.write_text("daemon = 3\nstate_dir = 4\n")
    assert loader.load_to_ask({"GSCHED_CONFIG": str(path)})[0] == Settings()
    assert loader.load_to_ask({"GSCHED_CONFIG": "/not/there"})[0] == Settings()


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False)])
def test_yes_and_no(load_text, text, value):
    assert load_text(f"[submit]\nopt_out = {text}\n").submit.opt_out is value
    for word in (text, text.upper(), str(int(value))):
        assert load_text("", GSCHED_SUBMIT_OPT_OUT=word).submit.opt_out is value


@pytest.mark.parametrize("text", ["1", "'true'", "[]"])
def test_what_is_neither_yes_nor_no(load_text, text):
    with pytest.raises(ConfigError, match=r"submit\.opt_out is .*, but it must be true or false"):
        load_text(f"[submit]\nopt_out = {text}\n")
    with pytest.raises(ConfigError, match=r"GSCHED_SUBMIT_OPT_OUT: submit\.opt_out is 'perhaps'"):
        load_text("", GSCHED_SUBMIT_OPT_OUT="perhaps")


def test_addresses_are_checked_where_they_stand(load_text):
    assert load_text("[daemon]\nquery_listen = ''\n").daemon.query_listen == ""
    assert load_text("[daemon]\nquery_listen = '[::]:80'\n").daemon.query_listen == "[::]:80"
    for key in ("query_listen", "query_address"):
        with pytest.raises(ConfigError, match=rf"site\.toml: daemon\.{key}: 'x' is no host:port"):
            load_text(f"[daemon]\n{key} = 'x'\n")
