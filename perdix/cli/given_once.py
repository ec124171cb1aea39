"""Commands that refuse an option which is given twice: of two values, one would be dropped without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperOption

if TYPE_CHECKING:
    from typer import Context


class GivenOnce(TyperCommand):
    """Every option once, but for flags and those that may be repeated."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]  # Typer's own Click
        """Refuse what is given twice."""
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for at, option in enumerate(given):
            if isinstance(option, TyperOption) and not (option.is_flag or option.multiple) and option in given[:at]:
                ctx.fail(f"{option.opts[0]} is given twice, and takes one value; give it once.")
        return super().parse_args(ctx, args)
