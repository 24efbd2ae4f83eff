"""What tests of recorded runs share."""

from __future__ import annotations

import pytest

from tracejit.deferred import Deferred


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of operations that were put off, in the order in which they are computed."""
    names: list[str] = []
    compute = Deferred.compute

    def listed(self: Deferred) -> None:
        names.append(self.op.name)
        compute(self)

    monkeypatch.setattr(Deferred, "compute", listed)
    return names
