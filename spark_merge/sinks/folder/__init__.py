"""An output folder, as the files sink, the spool and Delta's position have it.

`layout` what is in it, under which names, and each file's record; `output` the folder as its one writer has it, whose position is the chain
of its commits (../chain.py); `certificates` those of dumps.

- The position is a row of commits, each created exclusively. A worker that opens the output makes the next commit; an earlier worker that
  wakes up finds its number taken.
- The name of a file has its owner and attempt, so a late task replaces no file that a reader uses.
- Outputs of 0.1.0 are continued.
"""
