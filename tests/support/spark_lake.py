"""Tables of the Iceberg sink as Spark has them: Iceberg's own Java, by the catalog that pyiceberg wrote (JdbcCatalog, its SQLite file)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from sidecar.shared.model.nouns import TableSchema
from spark_merge.codecs.encode.typed import file_schema
from tests.support.lake import CATALOG, NAMESPACE, Texts, image
from tests.support.merged_lake import check_keys
from tests.support.services.iceberg_spark import IcebergSpark


def spark_of(uri: str, folder: Path) -> IcebergSpark:
    """`uri`: of an output of tests/support/lake.py::uri_of."""
    result, name = dict(parse_qsl(urlsplit(uri).query)), f"spark.sql.catalog.{CATALOG}"
    settings = {
        name: "org.apache.iceberg.spark.SparkCatalog",
        f"{name}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        f"{name}.uri": f"jdbc:{result['uri'].replace('sqlite:///', 'sqlite:', 1)}",
        f"{name}.warehouse": result["warehouse"],
        f"{name}.jdbc.schema-version": "V1",
        f"{name}.cache-enabled": "false",
    }
    return IcebergSpark({}, folder, settings)


def spark_rows(spark: IcebergSpark, schema: TableSchema, snapshot: int | None = None) -> list[Texts]:
    """As tests/support/merged_lake.py::rows_as_texts."""
    at = "" if snapshot is None else f" VERSION AS OF {snapshot}"
    untyped = file_schema(schema).names[6]
    rows = [image(row, schema, row[untyped]) for row in spark.rows(f"SELECT * FROM {named(schema)}{at}")]
    check_keys(rows, schema)
    return rows


def rewritten(spark: IcebergSpark, schema: TableSchema) -> None:
    """Spark compacts the whole table, and removes deletes that are of no use any more."""
    spark.rows(
        f"CALL {CATALOG}.system.rewrite_data_files(table => '{NAMESPACE}.{schema.name.schema}.{schema.name.table}', "
        "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))"
    )


def named(schema: TableSchema) -> str:
    """In SQL."""
    return ".".join(f"`{part}`" for part in (CATALOG, NAMESPACE, *schema.name))
