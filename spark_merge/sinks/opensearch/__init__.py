"""OpenSearch and Elasticsearch: an index for each table, a document for each row, whose version is its change's commit_ts.

uri        the sink's settings                 client     the server, its errors, and what is tried again
names      which index a table is              fields     a column's mapping, and the form of its values
documents  rows to the lines of a bulk         bulk       bulk requests, whose items are answered one by one
indices    the indices behind the names        position   whose output it is, and what it has
changes    what a DDL did to the tables        ddl        the same to the indices
writer     a task                              sink, fit  the port; which tables and rows the target can hold
reading    documents, slice by slice           parsed     their values as canonical text again

- Each document is once in a request, in commit order, so that no delete is overtaken although a restart of the server forgets deletes.
- Before each request a worker checks whose output it is. A worker that slept between two requests sends no more.
- A schema change is read from the schemas before and after it. It is done once, behind an alias, and rejected where rows come or go that
  no change brings.
"""
