"""A dump as a picture, and its report: what the console, a running dump and a finished one have in common of it."""
