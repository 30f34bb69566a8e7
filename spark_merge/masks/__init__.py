"""Column rules of a sink: columns that its target does not have, or has as a hash or a constant. For personal data.

    rules     which column has which mask, by rules `schema.table.column`; whether a constant is a value of a column
    salt      the secret of the hashes
    tables    a table as the target has it
    rows      its rows, a column at a time
    changes   schema changes that would show a value that is masked, or one that is not
    sink      the view between the log and any sink; the only place that masks

- A sink behind the view sees the tables and rows as its target has them, and nothing else: no sink knows of rules.
- A column of a handle key has no mask: a row would not be met by its key.
- A hash is the lower-case hex of HMAC-SHA-256 with the salt, of the canonical text in UTF-8. NULL stays NULL. So equal values stay equal.
- Rules are held against names as TiDB compares them. A new column that a rule matches is masked in its first row, and so is what rows
  from before have in it.
- What cannot be masked exactly stops the sink with an error before anything is written (P6).
"""
