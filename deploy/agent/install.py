"""What install.sh runs: fetch and check the agent's file, trade the code for a token, write the settings, start the service."""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile

BASE = os.environ["FETTLE_BASE"]
SHA256 = os.environ["FETTLE_SHA256"]
CODE = os.environ.pop("FETTLE_ENROLMENT_CODE", "")
ROOT = os.environ.get("FETTLE_ROOT", "").rstrip("/")
NODE = os.environ.get("FETTLE_NODE") or socket.gethostname()


class InstallError(Exception):
    """Why the agent cannot be installed, and what to do."""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could lead away from https."""

    def redirect_request(self, *_):
        return None


OPENER = urllib.request.build_opener(
    urllib.request.ProxyHandler({}) if "127.0.0.1" in BASE else urllib.request.ProxyHandler(), NoRedirect
)


def main():
    host = urllib.parse.urlsplit(BASE).hostname or ""
    if not (BASE.startswith("https://") or host in ("127.0.0.1", "::1", "localhost")):
        raise InstallError("%s is not https: an agent's token would travel for all to read." % BASE)
    if not CODE:
        raise InstallError("FETTLE_ENROLMENT_CODE is not set; `manage.py enrolment_code` on the server prints one.")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", NODE):
        raise InstallError("%r is no node name: give one of letters, digits, dots, dashes and underscores as FETTLE_NODE." % NODE)
    if os.geteuid() != 0 and not ROOT:
        raise InstallError("only root may write to /opt and /etc: run it with sudo, or give a folder of your own as FETTLE_ROOT.")
    paths = {"file": ROOT + "/opt/fettle-agent/fettle-agent.pyz", "token": ROOT + "/etc/fettle/agent-token",
             "settings": ROOT + "/etc/fettle/agent.toml", "spool": ROOT + "/var/lib/fettle-agent"}  # fmt: skip
    if os.path.exists(paths["settings"]):
        told = [line for line in open(paths["settings"], encoding="utf-8") if line.startswith("server")]
        if told and json.dumps(socket_url()) not in told[0]:
            raise InstallError("%s names another server: move it away to enrol this node here." % paths["settings"])
    fetch(paths["file"])
    write(paths["token"], 0o600, enrol() + "\n")
    os.makedirs(paths["spool"], mode=0o700, exist_ok=True)
    if not os.path.exists(paths["settings"]):
        write(paths["settings"], 0o644, "".join("%s = %s\n" % (name, json.dumps(value)) for name, value in (
            ("server", socket_url()), ("node", NODE), ("token_file", paths["token"]), ("spool", paths["spool"]))))  # fmt: skip
    start(paths)


def socket_url():
    return BASE.replace("http", "ws", 1).rstrip("/") + "/ws/agent/"


def ask(path, body=None):
    request = urllib.request.Request(
        BASE.rstrip("/") + path, body and json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with OPENER.open(request, timeout=60) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        text = error.read(2000).decode(errors="replace")
        try:
            text = json.loads(text)["detail"]
        except (ValueError, KeyError, TypeError):
            text = "HTTP %d" % error.code
        raise InstallError("%s%s says: %s" % (BASE, path, text)) from None
    except OSError as error:
        raise InstallError("%s%s cannot be reached: %s" % (BASE, path, getattr(error, "reason", error))) from None


def fetch(target):
    """Put the agent's file in its place, once it is the file that the server means and runs here."""
    content = ask("/agent/fettle-agent.pyz")
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise InstallError("the agent's file is not the one that this script was made for; fetch the script again.")
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    part = target + ".part"
    with open(part, "wb") as file:
        file.write(content)
        os.fsync(file.fileno())
    os.chmod(part, 0o755)
    trial = tempfile.mkdtemp()
    try:
        ran = subprocess.run([sys.executable, "-I", part, "--once", "--json"], capture_output=True, text=True, timeout=120,
                             env={"PATH": os.environ.get("PATH", ""), "FETTLE_AGENT_CACHE": trial})  # fmt: skip
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    if ran.returncode:
        os.unlink(part)
        raise InstallError("the agent does not run here: %s" % ran.stderr.strip()[-500:])
    os.replace(part, target)
    said = json.loads(ran.stdout)
    print("fettle: the agent reads %d GPU(s) here (driver: %s)." % (len(said.get("gpus", ())), said.get("gpus_state", "?")))


def enrol():
    """The node's token for the code, which is spent by this."""
    token = json.loads(ask("/agent/enrol", {"code": CODE, "node": NODE}))["token"]
    print("fettle: enrolled as %s." % NODE)
    return token


def write(path, mode, text):
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    part = path + ".part"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        file.write(text)
    os.chmod(part, mode)
    os.replace(part, path)


def start(paths):
    """Start the service where systemd runs; else say how to start the agent."""
    by_hand = "%s %s --config %s" % (sys.executable, paths["file"], paths["settings"])
    if ROOT or not os.path.isdir("/run/systemd/system") or not shutil.which("systemctl"):
        print("fettle: no systemd is used here; start the agent by: %s" % by_hand)
        return
    with zipfile.ZipFile(paths["file"]) as archive:
        unit = archive.read("fettle-agent.service").decode()
    unit = re.sub(r"(?m)^ExecStart=.*$", lambda _: "ExecStart=" + by_hand, unit)
    write("/etc/systemd/system/fettle-agent.service", 0o644, unit)
    for command in (["daemon-reload"], ["enable", "fettle-agent"], ["restart", "fettle-agent"]):
        ran = subprocess.run(["systemctl", *command], capture_output=True, text=True)
        if ran.returncode:
            raise InstallError(
                "systemctl %s: %s. The agent is installed; start it by: %s" % (" ".join(command), ran.stderr.strip(), by_hand)
            )
    print("fettle: the service fettle-agent runs; `journalctl -u fettle-agent` shows what it says.")


try:
    main()
except InstallError as trouble:
    sys.exit("fettle: " + str(trouble))
except (OSError, subprocess.SubprocessError) as error:
    sys.exit("fettle: %s" % error)
