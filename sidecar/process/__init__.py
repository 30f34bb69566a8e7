"""What several rooms need of a process of ours, and nothing of data.

    background   work beside the thread that owns it: what breaks there is raised where it is asked
    progress     work reports that it proceeds, to whoever watches for hangs
    listening    who may reach a gRPC server of ours;  tls  certificates and keys, for servers and clients
    descriptors  how many files and connections there may be;  secret_files  who may read secrets;  printable  texts of others
    checks       what a check of the preflight is, and how a list of them is carried out

It must not know which threads, servers or checks there are.
"""
