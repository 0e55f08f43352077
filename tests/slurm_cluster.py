"""A real Slurm cluster for tests: munged, slurmctld and a slurmd for each of two nodes on loopback, in one folder, on free ports.

The nodes' GPUs are links to /dev/null: Slurm gives out device files and looks at no card. With `accounting` a MariaDB and slurmdbd stand
behind it, which is what makes `sacct` and allocated TRES work.
"""

import getpass
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.serving import eventually, free_port

NODES = ("gpu01", "gpu02")
GPUS = 2
SCRIPTS = Path(__file__).resolve().parent.parent / "deploy" / "slurm"


class SlurmCluster:
    """One cluster; `folder` holds its configuration, state and logs. Every process is a child, and ends with `stop`."""

    def __init__(self, folder: Path, accounting: bool = False, settings: str = "", more: str = "") -> None:
        self.folder = folder
        self.accounting = accounting
        self.name = "books" if accounting else "lab"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "FETTLE_", "SBATCH"))}
        self.env["SLURM_CONF"] = str(folder / "slurm.conf")
        self._ports = {name: free_port() for name in ("slurmctld", "slurmdbd", "mariadb", *NODES)}
        self._prepare(settings, more)

    def _prepare(self, settings: str, more: str) -> None:
        folder, user, ports = self.folder, getpass.getuser(), self._ports
        (folder / "state").mkdir(parents=True)
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        for node in NODES:
            (folder / "dev" / node).mkdir(parents=True)
            for number in range(GPUS):
                (folder / "dev" / node / f"nvidia{number}").symlink_to("/dev/null")
        scripts = folder / "fettle"
        shutil.copytree(SCRIPTS, scripts)
        (scripts / "fettle.conf").write_text(settings)
        accounts = "AccountingStorageType=accounting_storage/none"
        if self.accounting:
            accounts = (
                "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"
                f"AccountingStoragePort={ports['slurmdbd']}\nAccountingStoragePass={folder}/munge.sock\n"
                "AccountingStorageTRES=gres/gpu,gres/gpu:h200"
            )
        (folder / "slurm.conf").write_text(
            f"""ClusterName={self.name}
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports["slurmctld"]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=100
{accounts}
MinJobAge=300
KillWait=1
SlurmdTimeout=10
SlurmctldTimeout=5
MessageTimeout=5
PrologFlags=Alloc
Prolog={scripts}/prolog
Epilog={scripts}/epilog
TaskProlog={scripts}/task-prolog
DebugFlags=NO_CONF_HASH
{more}
"""
            + "".join(
                f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[node]} CPUs=8 Gres=gpu:h200:{GPUS}\n"
                for node in NODES
            )
            + "PartitionName=main Nodes=gpu[01-02] Default=YES MaxTime=60 State=UP\n"
        )
        (folder / "gres.conf").write_text(
            "".join(f"NodeName={node} Name=gpu Type=h200 File={folder}/dev/{node}/nvidia[0-{GPUS - 1}]\n" for node in NODES)
        )
        if self.accounting:
            dbd = folder / "slurmdbd.conf"
            dbd.write_text(
                f"AuthType=auth/munge\nAuthInfo=socket={folder}/munge.sock\nDbdHost=localhost\nDbdAddr=127.0.0.1\n"
                f"DbdPort={ports['slurmdbd']}\nSlurmUser={user}\nStorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\n"
                f"StoragePort={ports['mariadb']}\nStorageUser=slurm\nStoragePass=slurm\nStorageLoc=slurm_acct\n"
                f"LogFile={folder}/slurmdbd.log\nPidFile={folder}/slurmdbd.pid\n"
            )
            dbd.chmod(0o600)

    def start(self) -> None:
        """Start everything and wait until both nodes are idle."""
        at = self.folder
        files = [f"--{name}={at}/munge.{name.partition('-')[0]}" for name in ("pid-file", "seed-file", "log-file")]
        self._spawn(
            "munged", ["munged", "--foreground", "--force", f"--socket={at}/munge.sock", f"--key-file={at}/munge.key", *files]
        )
        self._until("munged", lambda: (at / "munge.sock").exists())
        if self.accounting:
            self._start_accounting()
        for node in NODES:
            self.start_node(node)
        self.start_controller()

    def _start_accounting(self) -> None:
        at, user = self.folder, getpass.getuser()
        words = ["--no-defaults", f"--datadir={at}/db", f"--user={user}"]
        made = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        subprocess.run(["mariadb-install-db", *words, *made], capture_output=True, check=True)
        first = at / "first.sql"
        first.write_text(
            "create user 'slurm'@'127.0.0.1' identified by 'slurm';\ngrant all on slurm_acct.* to 'slurm'@'127.0.0.1';\n"
        )
        small = ["--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0", f"--init-file={first}"]
        listens = [
            f"--socket={at}/db.sock",
            "--bind-address=127.0.0.1",
            f"--port={self._ports['mariadb']}",
            f"--pid-file={at}/db.pid",
        ]
        self._spawn("mariadbd", ["mariadbd", *words, *listens, *small])
        self._until("mariadbd", lambda: (at / "db.sock").exists())
        self._spawn("slurmdbd", ["slurmdbd", "-D"])
        self._until("slurmdbd", lambda: self.client("sacctmgr", "-i", "add", "cluster", self.name, check=False) != "")

    def start_node(self, node: str) -> None:
        """Start a node's slurmd."""
        self._spawn(node, ["slurmd", "-D", "-N", node])

    def kill_node(self, node: str) -> None:
        """SIGKILL to a node's slurmd, as a crash: what ran there goes on, and no epilog is to come."""
        self.processes[node].kill()
        self.processes.pop(node).wait(10)

    def client(self, *words: str, check: bool = True) -> str:
        """What a client command prints; with `check` false an empty text where it fails."""
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, check=False, timeout=60, cwd=self.folder)
        if done.returncode and check:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
        return "" if done.returncode else done.stdout

    def submit(self, *options: str, script: str = "sleep 120") -> str:
        """The number of a job that was submitted; `:` among the options parts the components of a heterogeneous one."""
        file = self.folder / f"job-{secrets.token_hex(4)}.sh"
        file.write_text(f"#!/bin/sh\n{script}\n")
        return self.client("sbatch", "--parsable", *options, str(file)).strip()

    def states(self, number: str) -> set[str]:
        """The states of a job, of a task of an array (`9_1`), or of all components of a heterogeneous job."""
        return set(self.client("squeue", "-h", "-t", "all", "-j", number, "-o", "%T", check=False).split())

    def until(self, number: str, *states: str) -> None:
        """Wait until the job is in one of these states; RuntimeError with what is known where it never is."""
        if not eventually(lambda: self.states(number) and self.states(number) <= set(states), 30):
            said = self.client("scontrol", "show", "job", number, check=False)
            raise RuntimeError(f"job {number} is {self.states(number) or 'not known'}: {said}")

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Meanwhile the scripts know no server: nothing that they would tell arrives."""
        file = self.folder / "fettle" / "fettle.conf"
        settings = file.read_text()
        file.write_text("")
        yield
        file.write_text(settings)

    def purge(self) -> None:
        """Let the controller forget the jobs that are over, as it does after MinJobAge: it is started anew without its state.

        What it knows of them must be with slurmdbd by then, which it tells now and then.
        """
        numbers = set(self.client("squeue", "-h", "-t", "all", "-o", "%A").split())
        self._until(
            "slurmdbd",
            lambda: (
                numbers <= {row.split("|")[0] for row in self._accounted() if "|Unknown|" not in row and "|allocation" not in row}
            ),
        )
        self.stop_controller()
        for file in (self.folder / "state").glob("job_state*"):
            file.unlink()
        self.start_controller("-i")

    def stop_controller(self) -> None:
        """End slurmctld as a shutdown does: its state is kept."""
        self.processes["slurmctld"].terminate()
        self.processes.pop("slurmctld").wait(15)

    def start_controller(self, *options: str) -> None:
        """Start it, and wait until both nodes can be used."""
        self._spawn("slurmctld", ["slurmctld", "-D", *options])
        usable = {"idle", "mixed", "allocated", "completing"}
        self._until("slurmctld", lambda: set(self.client("sinfo", "-h", "-o", "%T", check=False).split() or ["none"]) <= usable)

    def _accounted(self) -> list[str]:
        words = ["sacct", "-n", "-X", "-D", "-a", "-P", "-o", "JobIDRaw,End,JobName"]
        return self.client(*words, check=False).splitlines()

    def stop(self) -> None:
        """End all jobs, then every process."""
        self.client("scancel", "--user", getpass.getuser(), "--signal=KILL", check=False)
        self.client("scancel", "--user", getpass.getuser(), check=False)
        if "slurmctld" in self.processes:
            eventually(lambda: not self.client("squeue", "-h", check=False), 10)
        for name in (*NODES, "slurmctld", "slurmdbd", "mariadbd", "munged"):
            process = self.processes.pop(name, None)
            if process is None or process.poll() is not None:
                continue
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
        self._kill_steps()

    def _kill_steps(self) -> None:
        """What runs of jobs still, when no slurmd is left to end it: their scripts, and slurmstepd above each."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                told = (folder / "cmdline").read_bytes()
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if f"{self.folder}/spool-".encode() not in told:
                    continue
                if (Path("/proc") / str(parent) / "cmdline").read_bytes().startswith(b"slurmstepd"):
                    os.kill(parent, signal.SIGKILL)
                os.kill(int(folder.name), signal.SIGKILL)
            except (OSError, ValueError):
                continue

    def _spawn(self, name: str, words: Sequence[str]) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self.processes[name] = subprocess.Popen(
                words, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder
            )

    def _until(self, name: str, call: object) -> None:
        if eventually(lambda: self.processes[name].poll() is not None or call(), 30) and self.processes[name].poll() is None:  # type: ignore[operator]
            return
        logs = [self.folder / f"{name}.log", self.folder / f"{name}.out"]
        raise RuntimeError(f"{name} did not start:\n" + "\n".join(log.read_text()[-2000:] for log in logs if log.exists()))


@contextmanager
def cluster(folder: Path, accounting: bool = False, settings: str = "", more: str = "") -> Iterator[SlurmCluster]:
    """A running cluster in a new folder; `settings`: what stands in the scripts' fettle.conf; `more`: lines of slurm.conf."""
    made = SlurmCluster(folder, accounting, settings, more)
    try:
        made.start()
        yield made
    finally:
        made.stop()
