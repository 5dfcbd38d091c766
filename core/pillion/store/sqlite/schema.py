"""Creating the schema, and refusing one of another version."""

from __future__ import annotations

import sqlite3
from typing import Final

from pillion.errors import WrongSchema
from pillion.store.sqlite.statements import Statements, read_sql

VERSION: Final = 1  # of the tables
CODE: Final = 1  # of this code; migrations only add, so older code goes on until a schema says otherwise
SERVES_FROM: Final = 1  # the oldest code version that these tables serve


def prepare(connection: sqlite3.Connection, sql: Statements, label: str) -> None:
    """Create what is missing under the write lock, or check what is there.

    Any number of processes may do this at once. Raises `WrongSchema` or `sqlite3.Error`.
    """
    found = _read(connection, sql)
    if not found:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Somebody else may have been first between the look and the lock.
            found = _read(connection, sql)
            if not found:
                _create(connection, sql)
                found = _read(connection, sql)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    _check(found, label)


def _read(connection: sqlite3.Connection, sql: Statements) -> dict[str, str]:
    """The meta table, or nothing if there is none."""
    name = sql.named("[meta]").strip("[]")
    if connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone() is None:
        return {}
    return dict(connection.execute(sql.named("SELECT k, v FROM [meta]")).fetchall())


def _create(connection: sqlite3.Connection, sql: Statements) -> None:
    # executescript() would commit first, and so give up the lock.
    statement = ""
    for line in sql.named(read_sql("schema.sql")).splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    rows = [("version", str(VERSION)), ("serves_from", str(SERVES_FROM))]
    connection.executemany(sql.named("INSERT INTO [meta] (k, v) VALUES (?, ?)"), rows)


def _check(found: dict[str, str], label: str) -> None:
    version = found.get("version", "")
    if version == str(VERSION):
        return
    if version.isdigit() and int(version) > VERSION:
        serves_from = found.get("serves_from", version)
        if serves_from.isdigit() and int(serves_from) <= CODE:
            return
        raise WrongSchema(
            f"{label} has schema version {version}, made by a newer pillion; this one knows version {VERSION}. "
            "Upgrade pillion here, or point PILLION_URL to another file."
        )
    raise WrongSchema(
        f"{label} holds tables of another version ({version or 'unknown'}; this pillion knows {VERSION}). "
        "Point PILLION_URL to another file, set another namespace, or move this file away to start afresh."
    )
