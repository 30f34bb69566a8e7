"""An output folder, as the files sink, the spool and Delta's position have it.

`layout` what is in it, under which names, and each file's record; `output` the folder as its one writer has it, whose position is the chain
of its commits (../chain.py); `certificates` those of dumps.
"""
