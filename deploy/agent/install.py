"""What install.sh runs: fetch and check the agent's file, trade the code for a token, write the settings, start the service.

Nothing takes its place before everything is at hand: a full disk spends no code, and a code that is refused changes nothing.
"""

import hashlib
import http.client
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
GIVEN_NODE = os.environ.get("FETTLE_NODE", "")
HOST = urllib.parse.urlsplit(BASE).hostname or ""
LOOPBACK = HOST in ("127.0.0.1", "::1", "localhost")

prepared = []  # the paths whose new content waits beside them
made = []  # the folders that were not there


class InstallError(Exception):
    """Why the agent cannot be installed, and what to do."""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could lead away from https."""

    def redirect_request(self, *_):
        return None


# a proxy cannot reach this machine's own loopback
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({} if LOOPBACK else None), NoRedirect)


def main():
    if not (BASE.startswith("https://") or LOOPBACK):
        raise InstallError("%s is not https: an agent's token would travel for all to read." % BASE)
    if os.geteuid() != 0 and not ROOT:
        raise InstallError("only root may write to /opt and /etc: run it with sudo, or give a folder of your own as FETTLE_ROOT.")
    paths = {"file": ROOT + "/opt/fettle-agent/fettle-agent.pyz", "token": ROOT + "/etc/fettle/agent-token",
             "settings": ROOT + "/etc/fettle/agent.toml", "spool": ROOT + "/var/lib/fettle-agent"}  # fmt: skip
    told = settings(paths["settings"])
    if told.get("server", socket_url()) != socket_url():
        raise InstallError("%s names another server: move it away to enrol this node here." % paths["settings"])
    node = GIVEN_NODE or told.get("node") or socket.gethostname()
    if told.get("node", node) != node:
        raise InstallError(
            "%s names the node %s, not %s: move it away, or leave out FETTLE_NODE." % (paths["settings"], told["node"], node)
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", node):
        raise InstallError("%r is no node name: give one of letters, digits, dots, dashes and underscores as FETTLE_NODE." % node)
    if not CODE and not (told and os.path.exists(paths["token"])):
        raise InstallError("FETTLE_ENROLMENT_CODE is not set; `manage.py enrolment_code` on the server prints one.")
    is_done = False
    try:
        fetch(paths["file"])
        make_folder(paths["spool"], 0o700)
        if not told:
            prepare(paths["settings"], 0o644, "".join("%s = %s\n" % (name, json.dumps(value)) for name, value in (
                ("server", socket_url()), ("node", node), ("token_file", paths["token"]), ("spool", paths["spool"]))))  # fmt: skip
        if CODE:
            prepare(paths["token"], 0o600, " " * 500)  # room for it, before the code is spent
            prepare(paths["token"], 0o600, enrol(node) + "\n")
        else:
            print("fettle: no code was given: the agent is renewed, and %s keeps its token." % node)
        for path in prepared:
            os.replace(path + ".part", path)
        is_done = True
    finally:
        for path in prepared:
            if os.path.exists(path + ".part"):  # something went wrong before it took its place
                os.unlink(path + ".part")
        if not is_done:
            remove_folders()
    start(paths)


def settings(path):
    """The server and the node that the settings name; nothing where there are none."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        found = dict(re.findall(r'(?m)^(server|node)\s*=\s*"([^"]*)"', file.read()))
    return found or {"server": socket_url()}


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
    except http.client.HTTPException as error:
        raise InstallError("%s%s broke off: %s. Run it again." % (BASE, path, error)) from None


def fetch(target):
    """Put the agent's file beside its place, once it is the file that the server means and runs here."""
    content = ask("/agent/fettle-agent.pyz")
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise InstallError("the agent's file is not the one that this script was made for; fetch the script again.")
    part = prepare(target, 0o755, content)
    trial = tempfile.mkdtemp()
    try:
        ran = subprocess.run([sys.executable, "-I", part, "--once", "--json"], capture_output=True, text=True, timeout=120,
                             env={"PATH": os.environ.get("PATH", ""), "FETTLE_AGENT_CACHE": trial})  # fmt: skip
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    if ran.returncode:
        raise InstallError("the agent does not run here: %s" % ran.stderr.strip()[-500:])
    said = json.loads(ran.stdout)
    print("fettle: the agent reads %d GPU(s) here (driver: %s)." % (len(said.get("gpus", ())), said.get("gpus_state", "?")))


def enrol(node):
    """The node's token for the code, which is spent by this."""
    token = json.loads(ask("/agent/enrol", {"code": CODE, "node": node}))["token"]
    print("fettle: enrolled as %s." % node)
    return token


def prepare(path, mode, content):
    """Write what belongs at `path` beside it, as far as the disk; where it was written."""
    part = path + ".part"
    try:
        make_folder(os.path.dirname(path), 0o755)
        with open(os.open(part, os.O_WRONLY | os.O_CREAT, mode), "wb") as file:
            if path not in prepared:
                prepared.append(path)
            file.write(content if isinstance(content, bytes) else content.encode())
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, mode)
    except OSError as error:
        raise InstallError("%s cannot be written: %s." % (path, error.strerror or error)) from None
    return part


def make_folder(path, mode):
    """Make the folder and what is missing above it."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.mkdir(folder, mode if folder == missing[0] else 0o755)
        made.append(folder)


def remove_folders():
    """Leave no folder behind that was not there before."""
    for folder in reversed(made):
        try:
            os.rmdir(folder)
        except OSError:
            return  # something lies in it by now


def start(paths):
    """Start the service where systemd runs; else say how to start the agent."""
    by_hand = "%s %s --config %s" % (sys.executable, paths["file"], paths["settings"])
    if ROOT or not os.path.isdir("/run/systemd/system") or not shutil.which("systemctl"):
        print("fettle: no systemd is used here; start the agent by: %s" % by_hand)
        return
    with zipfile.ZipFile(paths["file"]) as archive:
        unit = archive.read("fettle-agent.service").decode()
    unit = re.sub(r"(?m)^ExecStart=.*$", lambda _: "ExecStart=" + by_hand, unit)
    place = "/etc/systemd/system/fettle-agent.service"
    prepare(place, 0o644, unit)
    os.replace(place + ".part", place)
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
