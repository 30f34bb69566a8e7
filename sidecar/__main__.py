"""`python -m sidecar` is `ticdc-dump`: how a process starts another one with its own interpreter."""

from sidecar.cli.main import main

if __name__ == "__main__":
    main()
