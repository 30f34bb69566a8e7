"""What several packages need of a process, and nothing of data.

    background   work beside the thread that owns it: what breaks there is raised where the owner asks
    progress     work reports that it proceeds, to a watch for hangs;  patience  how long what fails is tried again
    addresses, listening   which addresses can be listened on, and who may reach a gRPC server of ours
    tls          certificates and keys, for servers and clients;  librdkafka  what both edges to it share
    plain_arrow  pyarrow without pandas, where that is installed
    descriptors  how many files and connections there can be;  limits  cores and memory that there are
    signals      the signals that end a process
    group, scratch   a child with all that it starts, and the folders that go with it;  end_with_parent  what the kernel ends
    secret_files, kept_secrets   who may read secrets; secrets of URIs for child processes;  printable  texts of others on a terminal
    checks       what a check of the preflight is, and how a list of them runs

It must not know which threads, servers or checks there are.
"""
