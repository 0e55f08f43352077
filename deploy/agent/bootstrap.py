"""Starts the agent from its one file: unpacks what this Python needs once, then hands over.

It runs before anything is known of the Python, so it uses the oldest forms of the language and the standard library alone.
"""

import hashlib
import importlib
import json
import os
import platform
import shutil
import stat
import sys
import tempfile
import zipfile


def fail(sentence):
    sys.stderr.write("fettle-agent: " + sentence + "\n")
    sys.exit(2)


def main():
    here = os.path.abspath(sys.path[0] if os.path.isfile(sys.path[0]) else __file__.rsplit("/", 1)[0])
    if sys.version_info < (3, 10) or platform.python_implementation() != "CPython":
        fail("this is %s %s; it needs CPython 3.10 to 3.14. Start it with one of those: python3.11 %s" % (
            platform.python_implementation(), platform.python_version(), here))  # fmt: skip
    with zipfile.ZipFile(here) as archive:
        wheels = json.loads(archive.read("wheels.json").decode())
        target = "%d.%d-%s" % (sys.version_info[0], sys.version_info[1], platform.machine())
        if target not in wheels or not sys.platform.startswith("linux"):
            fail("it has no part for %s on %s; it has %s." % (target, sys.platform, ", ".join(sorted(wheels))))
        if platform.libc_ver()[0] != "glibc":
            fail("this Python does not run on glibc, which the compiled parts need; use the container image.")
        site = unpacked(archive, here, target, wheels[target])
    sys.path[0:1] = [site, os.path.join(site, "code")]
    # -I and PYTHONSAFEPATH keep other folders out already; what the user set stays behind ours
    if sys.argv[1:2] and sys.argv[1] in ("bench", "job", "slurm"):
        verb = importlib.import_module("cli." + sys.argv[1])
        sys.exit(verb.main(sys.argv[2:], "fettle-agent " + sys.argv[1]))
    from cli.agent import main as agent

    sys.exit(agent(sys.argv[1:], "fettle-agent"))


def unpacked(archive, here, target, wheels):
    """The folder with the code and the wheels for this Python, made once for each file and each Python."""
    with open(here, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:16]
    for base in places():
        folder = os.path.join(base, digest + "-" + target)
        try:
            if os.path.isdir(folder):
                if is_ours(base) and is_ours(folder):
                    return folder
                continue
            os.makedirs(base, mode=0o700, exist_ok=True)
            if not is_ours(base):
                continue
            part = tempfile.mkdtemp(prefix=".part-", dir=base)
        except OSError:
            continue
        try:
            for name in archive.namelist():
                if name.startswith("code/") or name in ("version", "fettle-agent.service"):
                    archive.extract(name, part)
            for wheel in wheels:
                with archive.open("wheels/" + wheel) as file, zipfile.ZipFile(file) as inner:
                    inner.extractall(part)
            os.rename(part, folder)
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)
            if os.path.isdir(folder) and is_ours(folder):
                return folder  # another start of it was faster
            fail("%s cannot be written: %s" % (folder, error.strerror or error))
        sweep(base, digest)
        return folder
    fail("no folder to unpack to: give one that only this user can write, as FETTLE_AGENT_CACHE.")


def places():
    """Where to unpack, best first."""
    given = os.environ.get("FETTLE_AGENT_CACHE")
    if given:
        return [given]
    if os.geteuid() == 0:
        return ["/var/cache/fettle-agent"]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return [os.path.join(home, "fettle-agent"), os.path.join(tempfile.gettempdir(), "fettle-agent-%d" % os.geteuid())]


def is_ours(folder):
    """True where nobody else could have put code."""
    found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def sweep(base, digest):
    """Remove what older files left, but for the last two: an agent that runs may still import from there."""
    old = [os.path.join(base, name) for name in os.listdir(base) if not name.startswith((digest, ".part-"))]
    for folder in sorted(old, key=os.path.getmtime)[:-2]:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
