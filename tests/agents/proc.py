"""A small /proc made of files, for the collectors that take its root as an argument."""

from pathlib import Path


def cpu_line(name: str, user: int, system: int, idle: int, iowait: int, steal: int = 0) -> str:
    """A line of /proc/stat."""
    return f"{name} {user} 0 {system} {idle} {iowait} 0 0 {steal} 0 0\n"


class Proc:
    """Writes the files; every method replaces what was there."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def stat(self, *cores: tuple[int, ...]) -> None:
        """(user, system, idle, iowait) of each core, then perhaps steal; the first line is their sum."""
        lines = [cpu_line("cpu", *(sum(column) for column in zip(*cores, strict=True)))]
        lines += [cpu_line(f"cpu{i}", *core) for i, core in enumerate(cores)]
        (self.root / "stat").write_text("".join(lines) + "intr 1 2 3\nctxt 5\n")

    def meminfo(self, total_kb: int, available_kb: int) -> None:
        """Memory."""
        (self.root / "meminfo").write_text(
            f"MemTotal: {total_kb} kB\nMemFree: 1 kB\nMemAvailable: {available_kb} kB\nBuffers: 1 kB\n"
        )

    def diskstats(self, **sectors: tuple[int, int]) -> None:
        """(sectors read, sectors written) of each device."""
        lines = [f"   8 0 {name} 1 0 {read} 0 1 0 {written} 0 0 0 0\n" for name, (read, written) in sectors.items()]
        (self.root / "diskstats").write_text("".join(lines))

    def net(self, **octets: tuple[int, int]) -> None:
        """(received, sent) of each interface."""
        (self.root / "net").mkdir(exist_ok=True)
        lines = [f"{name.replace('_', '-')}: {rx} 0 0 0 0 0 0 0 {tx} 0 0 0 0 0 0 0\n" for name, (rx, tx) in octets.items()]
        (self.root / "net" / "dev").write_text("Inter-| Receive\n face |bytes\n" + "".join(lines))

    def process(
        self,
        pid: int,
        comm: str = "python",
        parent: int = 1,
        ticks: int = 0,
        start: int = 100,
        threads: int = 3,
        state: str = "S",
        cmdline: str = "",
        rss_pages: int = 10,
        io: tuple[int, int] | None = (1000, 2000),
        main_ticks: int | None = None,
        io_delay: int = 0,
        shmem_kb: int = 0,
        namespace_pid: int | None = None,
        processor: int = 0,
    ) -> None:
        """One process; `main_ticks` None: its main thread cannot be read."""
        directory = self.root / str(pid)
        directory.mkdir(exist_ok=True)

        def line(ticks: int) -> str:
            words = [state, str(parent), *["0"] * 9, str(ticks // 2), str(ticks - ticks // 2), *["0"] * 4, str(threads)]
            words += ["0", str(start), *["0"] * 16, str(processor), "0", "0", str(io_delay), "0"]
            return f"{pid} ({comm}) {' '.join(words)}\n"

        (directory / "stat").write_text(line(ticks))
        if main_ticks is not None:
            (directory / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
            (directory / "task" / str(pid) / "stat").write_text(line(main_ticks))
        inside = "" if namespace_pid is None else f"\t{namespace_pid}"
        (directory / "status").write_text(
            f"Name:\t{comm}\nNSpid:\t{pid}{inside}\nRssShmem:\t{shmem_kb} kB\n"
            "voluntary_ctxt_switches:\t70\nnonvoluntary_ctxt_switches:\t3\n"
        )
        (directory / "statm").write_text(f"100 {rss_pages} 5 1 0 9 0\n")
        (directory / "cmdline").write_bytes(cmdline.replace(" ", "\0").encode() + b"\0")
        if io is not None:
            (directory / "io").write_text(
                f"rchar: {io[0]}\nwchar: {io[1]}\nsyscr: 1\nread_bytes: {io[0] // 2}\nwrite_bytes: {io[1] // 2}\n"
            )

    def words(self, pid: int, file: str, *words: str) -> None:
        """`cmdline` or `environ` of a process that is there, word by word."""
        (self.root / str(pid) / file).write_bytes("".join(f"{word}\0" for word in words).encode())
