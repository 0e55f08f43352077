"""A Parquet file with one flipped bit, which Polars answers with a panic of its Rust side in place of an error."""

from contextlib import suppress
from pathlib import Path

import polars as pl


def make_panic(path: Path) -> None:
    """Flip the first bit of the file's footer by which its read panics."""
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    for at in range(len(whole) - 8 - footer, len(whole) - 8):
        data = bytearray(whole)
        data[at] ^= 2
        path.write_bytes(data)
        try:
            with suppress(pl.exceptions.PolarsError):
                pl.scan_parquet(path, glob=False).collect()
        except pl.exceptions.PanicException:
            return
    raise AssertionError("no flipped bit of the footer makes Polars panic any more")
