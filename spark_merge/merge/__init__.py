"""Which rows of a chunk a consumer gets, and where between the changes. It must not know which sinks there are, nor where a task runs.

rule       the merge, slow and obvious: the promise. Read this first
survivors  the same, fast; a property test holds them equal
cut        segments to batches, units and tasks
task       what a task does: reads, decodes, merges, and hands portions to the sink's writer
"""
