"""A soak: the whole product under the rig's disasters for as long as is asked, dump after dump, and how what it holds grows.

sampling    what a process holds: memory, descriptors, threads; what a folder holds
slopes      growth an hour of each, by Theil-Sen over the second half, within one process's life only
trouble     what goes wrong: deaths in the first quarter, outages and frozen processes all along
__main__    `make soak`: rig, sidecar, worker, writes, dumps; at the end the table, the JSON, and the output held against the source
"""
