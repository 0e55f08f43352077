"""What of the Parquet store is damaged: counted for /metrics, since the rest of it goes on without a word."""

import os

from fleet.store.columns import MAX_KEY
from fleet.store.layout import DAMAGED, RESOLUTIONS, days, parse
from fleet.store.parquet import ParquetSeries
from fleet.store.series import StoreError, store


def damaged_files() -> int | None:
    """Files that were set aside or that this process could not read and that are still there; None where the store has no files."""
    engine = store()
    if not isinstance(engine, ParquetSeries):
        return None
    found = 0
    try:
        for scope, readers in engine.readers.items():
            for of in RESOLUTIONS:
                for path in days(engine.folder(scope, of), 0, MAX_KEY, of):
                    names = os.listdir(path) if path.is_dir() else []
                    found += sum(name in readers[of].damaged or _is_aside(name) for name in names)
    except OSError as error:
        raise StoreError(f"{engine.root} cannot be read: {error.strerror or error}.") from error
    return found


def _is_aside(name: str) -> bool:
    return name.endswith(DAMAGED) and parse(name.removesuffix(DAMAGED)) is not None
