"""Every command of the README's tour in a shell, as printed and in order, the slow ones too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.tour import PROMISED, Clone, clone_of

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    with clone_of(tmp_path_factory.mktemp("clone")) as made:
        yield made


@pytest.mark.parametrize("command", list(PROMISED))
def test_every_command_of_the_tour_ends_well_and_keeps_its_promise(command: str, clone: Clone) -> None:
    assert PROMISED[command].said in clone.shell(command).replace(str(clone.port), "9099")
