"""Runs docker-compose.yml without a container engine: each service's own command, as plain processes on loopback.

Every container has a loopback address of its own, on which it listens at its own ports. Mapped are: the names of services to those
addresses (in configuration files they stay: the engine's DNS answers), 0.0.0.0 and 127.0.0.1 to the container's own address, the paths
of volumes, secrets, configs and tmpfs to folders, programs' names to Debian's, users to users of this machine where root runs it.
A server of this machine that listens at one of these ports on all addresses is in the way.
"""

import contextlib
import os
import pwd
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.deploy import compose_file, engine_dns


@dataclass
class Container:
    """One process of a service, and where its paths lie."""

    service: str
    address: str
    folder: Path
    paths: dict[str, str]
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def log(self) -> Path:
        """What it said."""
        return self.folder / "log"

    def runs(self) -> bool:
        """True while its process is there."""
        return self.process is not None and self.process.poll() is None


@dataclass
class Engine:
    """All containers of one file. `root` is the image's working folder, `programs` what stands for an image's program."""

    document: dict[str, Any]
    root: Path
    folder: Path
    programs: Mapping[str, str]
    path: str
    environment: Mapping[str, str]
    containers: dict[str, list[Container]] = field(default_factory=dict)
    started: list[Container] = field(default_factory=list)
    dns: str = ""

    def __post_init__(self) -> None:
        number = 1
        network = f"127.{random.randint(16, 250)}.{random.randint(0, 250)}"
        self.gateway = f"{network}.1"
        for name, service in self.document["services"].items():
            self.containers[name] = []
            for _ in range(int(service.get("deploy", {}).get("replicas", 1))):
                number += 1
                own = self.folder / f"{name}-{number}"
                self._folder(own, service)
                self.containers[name].append(Container(name, f"{network}.{number}", own, self._paths(service, own)))

    def service(self, name: str) -> dict[str, Any]:
        """What the file says of it."""
        found: dict[str, Any] = self.document["services"][name]
        return found

    def addresses(self, name: str) -> list[str] | None:
        """What the DNS tells: the running containers of a service; None where there is no such service."""
        return None if name not in self.containers else [one.address for one in self.containers[name] if one.runs()]

    # -- what is mapped

    def _paths(self, service: Mapping[str, Any], own: Path) -> dict[str, str]:
        found = {}
        for path in service.get("tmpfs", []):
            found[path] = self._folder(own / path.strip("/").replace("/", "-"), service)
        for path, name in compose_file.volumes(service).items():
            found[path] = self._folder(self.folder / "volumes" / name, service)
        for item in service.get("configs", []):
            found[item["target"]] = str(own / Path(item["target"]).name)
        return found

    def _folder(self, path: Path, service: Mapping[str, Any]) -> str:
        path.mkdir(parents=True, exist_ok=True)
        if (uid := self.uid(service)) is not None:
            os.chown(path, uid, uid if str(service["user"])[0].isdigit() else pwd.getpwuid(uid).pw_gid)
        return str(path)

    def uid(self, service: Mapping[str, Any]) -> int | None:
        """The user on this machine that stands for the service's; None where it runs as whoever runs the tests."""
        user = str(service.get("user", "")).partition(":")[0]
        if os.geteuid() != 0 or not user:
            return None
        if user.isdigit():
            return int(user) if _may_run_python(int(user)) else None
        try:
            return pwd.getpwnam(user).pw_uid
        except KeyError:
            return pwd.getpwnam("nobody").pw_uid

    def told(self, text: str, one: Container, names: bool = True) -> str:
        """A text of the file with everything mapped for this container."""
        secrets = compose_file.secret_files(self.service(one.service))
        files = {path: str(self.root / self.document["secrets"][name]["file"]) for name, path in secrets.items()}
        paths = {**files, **one.paths, **self.programs}
        parts = ["|".join(rf"(?<![\w./-]){re.escape(path)}(?![\w.-])" for path in sorted(paths, key=len, reverse=True))]
        parts += [r"127\.0\.0\.11:53", r"(?<![\d.])(?:0\.0\.0\.0|127\.0\.0\.1)(?![\d.])"]
        if names:
            parts += [rf"(?<![\w.-])(?:{'|'.join(map(re.escape, self.containers))})(?=:\d)"]

        def mapped(found: re.Match[str]) -> str:
            word = found[0]
            if word in self.containers:
                return self.containers[word][0].address
            return paths.get(word) or (self.dns if word.endswith(":53") else one.address)

        return re.sub("|".join(filter(None, parts)), mapped, text)

    def variables(self, one: Container) -> dict[str, str]:
        """The environment of a container: the image's, the file's, and this machine's PATH."""
        service = self.service(one.service)
        own = {name: str(value) for name, value in (service.get("environment") or {}).items()}
        image = self.environment if service["image"].startswith("fettle:") else {}
        told = {name: self.told(value, one) for name, value in {**image, **own}.items()}
        return {**told, "PATH": self.path, "HOME": str(one.folder), "LANG": "C.UTF-8"}

    def command(self, one: Container, words: Sequence[str]) -> list[str]:
        """The words of a command as they run here, under the service's user."""
        uid = self.uid(self.service(one.service))
        return [*([] if uid is None else _as(uid)), *(self.told(word, one) for word in words)]

    # -- what runs

    def run(self, name: str, words: Sequence[str], check: bool = True) -> str:
        """`docker compose run --rm SERVICE …`: what it printed."""
        one = self.containers[name][0]
        done = subprocess.run(
            self.command(one, words), cwd=self.root, env=self.variables(one), capture_output=True, text=True, timeout=120, check=False
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def healthy(self, one: Container) -> bool:
        """What the service's own health check says."""
        kind, *words = self.service(one.service)["healthcheck"]["test"]
        words = ["/bin/sh", "-c", words[0]] if kind == "CMD-SHELL" else words
        done = subprocess.run(
            self.command(one, words), cwd=self.root, env=self.variables(one), capture_output=True, timeout=30, check=False
        )
        return done.returncode == 0

    def up(self, *names: str) -> None:
        """`docker compose up --wait`: what these services need first, each as its conditions say; one-shots run again."""
        done: set[str] = set()
        for name in names:
            self._up(name, done)
        for one in (one for name in names for one in self.containers[name]):
            self._wait(one, "service_healthy")

    def _up(self, name: str, done: set[str]) -> None:
        if name in done:
            return
        done.add(name)
        service = self.service(name)
        for other, how in service.get("depends_on", {}).items():
            self._up(other, done)
            for one in self.containers[other]:
                self._wait(one, how["condition"])
        for one in self.containers[name]:
            if not one.runs():
                self.start(one)

    def start(self, one: Container) -> None:
        """One container's process."""
        service = self.service(one.service)
        for item in service.get("configs", []):
            text = (self.root / self.document["configs"][item["source"]]["file"]).read_text()
            Path(one.paths[item["target"]]).write_text(self.told(text, one, names=False))
        if service["image"].startswith("postgres:"):
            self._database(one, service)
        words = [*service.get("entrypoint", []), *service["command"]]
        with one.log.open("ab") as log:
            one.process = subprocess.Popen(
                self.command(one, words), cwd=self.root if "build" in service else one.folder, env=self.variables(one),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.started.append(one)

    def _database(self, one: Container, service: Mapping[str, Any]) -> None:
        """What the image's entry point does with an empty volume."""
        variables, file = self.variables(one), service["environment"]
        if Path(variables["PGDATA"], "PG_VERSION").exists():
            return
        password = f"--pwfile={file['POSTGRES_PASSWORD_FILE']}"
        init = self.command(
            one, ["initdb", f"--username={file['POSTGRES_USER']}", password, *file["POSTGRES_INITDB_ARGS"].split()]
        )
        single = self.command(one, ["postgres", "--single", "-j", "postgres"])
        for words, text in ((init, ""), (single, f'CREATE DATABASE "{file["POSTGRES_DB"]}"\n')):
            subprocess.run(words, env=variables, cwd=one.folder, input=text.encode(), check=True, capture_output=True, timeout=60)

    def _wait(self, one: Container, condition: str) -> None:
        assert one.process is not None
        check = self.service(one.service).get("healthcheck", {})
        patience = compose_file.seconds(check.get("start_period", "0s")) + 60
        if condition == "service_completed_successfully":
            assert one.process.wait(patience) == 0, one.log.read_text()
            return
        assert condition == "service_healthy", condition
        deadline = time.monotonic() + patience
        while not self.healthy(one):
            assert one.runs(), f"{one.service} ended:\n{one.log.read_text()}"
            assert time.monotonic() < deadline, f"{one.service} does not become healthy:\n{one.log.read_text()}"
            time.sleep(0.3)

    def stop(self, one: Container) -> bool:
        """SIGTERM, the service's grace, SIGKILL; True where it ended by itself. Nothing of its group is left."""
        process, graceful = one.process, True
        if process is None:
            return True
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(min(30, compose_file.seconds(self.service(one.service).get("stop_grace_period", "10s"))))
        except subprocess.TimeoutExpired:
            graceful = False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        return graceful

    def down(self) -> list[str]:
        """Stop all, the last started first; the services that had to be killed."""
        return [one.service for one in reversed(self.started) if not self.stop(one)]


@contextlib.contextmanager
def engine(
    document: dict[str, Any], root: Path, folder: Path, programs: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[Engine]:
    """The file's services, none started yet; all are gone at the end."""
    made = Engine(document, root, folder, programs, _path(), environment)
    with engine_dns.serving(made.gateway, made.addresses) as port:
        made.dns = f"{made.gateway}:{port}"
        try:
            yield made
        finally:
            made.down()


def _as(uid: int) -> list[str]:
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]


@cache
def _may_run_python(uid: int) -> bool:
    """False where this machine's Python lies in a folder that is closed to others, such as root's own."""
    asked = [*_as(uid), "sh", "-c", 'exec "$0" -c "import django"', sys.executable]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def _path() -> str:
    postgres = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    return ":".join([str(Path(sys.executable).parent), *map(str, postgres[-1:]), "/usr/sbin", "/usr/bin", "/sbin", "/bin"])
