"""Records as a Parquet file, through an optional part: `pip install 'remit[parquet]'`."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, Any

from remit.cli.output import Failure
from remit.core.formats.record_export import COLUMNS, make_csv_row

BATCH_ROWS = 10_000


def write_parquet(records: Iterable[dict[str, Any]], file: IO[bytes]) -> None:
    """Write the columns of the `csv` form, a row for each record, few of them in memory. Raises Failure."""
    try:
        import arro3.core  # an optional part
        from arro3.io import write_parquet as write
    except ImportError as error:
        fix = "pip install 'remit[parquet]'"
        raise Failure("NOT_INSTALLED", "Parquet needs the optional part `parquet`", fix=fix) from error
    arrow: Any = arro3.core  # its stubs leave a part of each type unknown
    schema = arrow.Schema([arrow.Field(name, arrow.DataType.string(), nullable=False) for name in COLUMNS])

    def batches() -> Iterator[Any]:
        rows = map(make_csv_row, records)
        while lot := list(islice(rows, BATCH_ROWS)):
            columns = [arrow.Array(list(column), arrow.DataType.string()) for column in zip(*lot, strict=True)]
            yield arrow.RecordBatch.from_arrays(columns, schema=schema)

    write(arrow.RecordBatchReader.from_batches(schema, batches()), file)
