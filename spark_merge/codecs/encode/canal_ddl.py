"""canal-json's word for a DDL, which is coarser than TiDB's action (tiflow pkg/sink/codec/canal/canal_entry.go::convertDdlEventType).

For all that it has no word for, and for a statement that is not known here, it is QUERY: who reads it goes by the statement.
"""

from __future__ import annotations

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.schema.ddl import Action
from sidecar.shared.ticdc.ddl_text import action_of

_A = Action
_WORDS = {
    "CREATE": (_A.CREATE_TABLE,),
    "RENAME": (_A.RENAME_TABLE, _A.RENAME_TABLES),
    "CINDEX": (_A.ADD_INDEX, _A.ADD_FOREIGN_KEY, _A.ADD_PRIMARY_KEY),
    "DINDEX": (_A.DROP_INDEX, _A.DROP_FOREIGN_KEY, _A.DROP_PRIMARY_KEY),
    "ALTER": (
        _A.ADD_COLUMN, _A.DROP_COLUMN, _A.MODIFY_COLUMN, _A.REBASE_AUTO_ID, _A.SET_DEFAULT_VALUE, _A.MODIFY_TABLE_COMMENT, _A.RENAME_INDEX,
        _A.ADD_TABLE_PARTITION, _A.DROP_TABLE_PARTITION, _A.MODIFY_TABLE_CHARSET, _A.TRUNCATE_TABLE_PARTITION, _A.ALTER_INDEX_VISIBILITY,
        _A.MULTI_SCHEMA_CHANGE, _A.REORGANIZE_PARTITION, _A.ALTER_TABLE_PARTITIONING, _A.REMOVE_PARTITIONING, _A.ADD_COLUMNS,
        _A.DROP_COLUMNS,
    ),
    "ERASE": (_A.DROP_TABLE,),
    "TRUNCATE": (_A.TRUNCATE_TABLE,),
}  # fmt: skip
_WORD_OF = {action: word for word, actions in _WORDS.items() for action in actions}


def canal_word(query: str) -> str:
    try:
        return _WORD_OF.get(action_of(query), "QUERY")
    except UnsupportedDdl:
        return "QUERY"
