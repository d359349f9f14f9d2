"""One module per `magpie` subcommand: `HELP`, `add_arguments(parser)` and `run(args) -> exit code`."""
