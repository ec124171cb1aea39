"""Options that several commands share."""

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output (docs/json.md).")]
JobArgument = Annotated[str, typer.Argument(help="Name of the stream job.", show_default=False)]
