"""One module a command: `NAME`, `HELP`, `configure(parser)`, `run(args)` → exit code. `cli.py` finds them."""
