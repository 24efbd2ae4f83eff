"""Takes a recorder's place while what happens is foreseen: operations come again as they came before.

A loop of Python is recorded round by round. From some rounds on, each of its operations is one that ran at the same
place on operands of the same types, which lie alike: so will its result. Then nothing has to be found out again. The
result is put off (`deferral`), and what was written down the last time is written down once more, on other operands,
when the recorder is asked anything or when the run is over. The recording is the one that it would have been.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...cuda.arrays import MODULES
from ...deferral import MOST_INTERRUPTIONS, Deferral
from ...deferred import Deferred
from ...dispatch import apply
from ...dtypes import get_default_dtype
from ...errors import user_frame
from ...ir.graph import Value
from ...layout import layout_of
from ...modes import MODES
from ...ops.kinds import Contraction, Elementwise, Movement, Reduction
from ...ops.table import Op
from ...tensor import Tensor
from ..recording.kept_alive import MOST_BYTES
from .site import Place, Site, can_come_again
from .writing import write_again

if TYPE_CHECKING:
    from ..recording.recorder import Recorder

__all__ = ["Foresight"]

#: How often an operation has run at a line before its repetitions are foreseen.
SEEN = 3
#: Operations that may wait to be written down.
MOST_WAITING = 4096
#: Places of one instruction that are told apart.
MOST_ALIKE = 16
#: Operations that came otherwise than foreseen, in a row and without any that was, before nobody foresees any more.
MOST_FUTILE = 64


class Foresight:
    """What one recorded run knows of operations that come again; ``foresee`` while it has the recorder's place."""

    # What others ask in the middle of an operation, as it is while this has that place.
    failure = watched = scope = trial = None
    packs = parts = ()

    def __init__(self, recorder: Recorder, deferral: Deferral) -> None:
        self.recorder = recorder
        self.deferral = deferral
        self.live = False
        self.counts: dict[Any, int] = {}
        self.watches = False  # does anything come again?
        self.sites: dict[Any, list[Site]] = {}
        self.last: Site | None = None  # the last operation, recorded or foreseen
        self.futile = 0
        self.waiting: list[tuple[Site, Sequence[Any], Tensor]] = []
        self.nbytes = 0  # of what waits
        self.count = 0  # of all that came as foreseen

    def __getattr__(self, name: str) -> Any:
        self.end()
        return getattr(self.recorder, name)

    # --- what comes again ----------------------------------------------------------------------------------------

    def foresee(
        self, op: Op, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> Tensor | None:
        """The result of an operation that comes as foreseen, put off; None for others, which end this."""
        modes = MODES
        if (
            self.live
            and self.last is not None
            and modes.deferral is self.deferral
            and self.recorder.failure is None
            and not modes.saved_hooks
            and modes.anomaly is None
        ):
            default = get_default_dtype()
            for site in self.last.next:
                if site.op is op and site.default is default and site.is_at(2):
                    versions: list[Any] = []
                    given = site.given(operands, attributes, versions)
                    if given is not None:
                        out = self.result(site, operands, given, versions)
                        if out is not None:
                            return out
        self.end()
        return None

    def result(
        self, site: Site, operands: Sequence[Any], given: list[Any], versions: list[Any]
    ) -> Tensor | None:
        """What the operation of a site gives this time; None for a view of what is there now and was not, or was.

        ``versions`` are how often what it is ``given`` was written to.
        """
        layout, op, attributes = site.layout, site.op, site.attributes
        if site.is_view:
            if (type(given[0]) is Deferred) is (layout is None):
                return None
            if layout is not None:
                shown = layout, site.meta
                out = self.deferral.view(op, operands[0], given, attributes, shown)
            else:
                out = Tensor._wrap(op.evaluate(given, attributes))
                layout_of(out)
                out._become_view(operands[0], op, attributes)
        else:
            out = self.deferral.put_off(op, versions, given, attributes, layout, site.seconds)
            if MODES.inference:
                out._inference = True
        self.last = site
        self.waiting.append((site, operands, out))
        self.nbytes += site.nbytes
        if len(self.waiting) >= MOST_WAITING or self.nbytes > MOST_BYTES:
            self.write()
        return out

    # --- what ran ------------------------------------------------------------------------------------------------

    def met(
        self,
        op: Op,
        operands: Sequence[Any],
        attributes: dict[str, Any],
        out: Tensor,
        value: Value,
    ) -> None:
        """An operation was recorded, and ``value`` written down for its result."""
        if self.recorder.scope is not None or self.recorder.line is not None:
            self.last = None  # types may hold sizes that only the run tells, or it ran before
        elif self.watches:
            site = self.site_of(op, operands, attributes, out, value)
            if site is not None:
                if self.last is not None:
                    self.last.leads_to(site)
                self.begin()
            self.last = site
        else:
            key = value.op, value.line
            count = self.counts[key] = self.counts.get(key, 0) + 1
            self.watches = count >= SEEN

    def site_of(
        self,
        op: Op,
        operands: Sequence[Any],
        attributes: dict[str, Any],
        out: Tensor,
        value: Value,
    ) -> Site | None:
        """What ran, as it will be known again; None where it may be otherwise."""
        if not isinstance(op, (Elementwise, Reduction, Movement, Contraction)) or op.dynamic:
            return None
        if value.op is not op or len(value.operands) != len(operands) or value.spec != out.spec:
            return None
        if not can_come_again(operands, attributes, out):
            return None
        where = _place()
        if where is None:
            return None
        site = Site(op, operands, attributes, where, value)
        if not self.lies(site, operands, out):
            return None
        known = self.sites.setdefault((id(where[0]), where[1], op), [])
        for other in known:
            if other.is_like(site):
                other.value = value
                return other
        if len(known) >= MOST_ALIKE:
            return None
        known.append(site)
        return site

    def lies(self, site: Site, operands: Sequence[Any], out: Tensor) -> bool:
        """Note how the result lies; False where that hangs on more."""
        block = out._block
        put_off = type(block) is Deferred and out._array is None
        if out._base is not None:
            if put_off:
                site.layout, site.meta = block.layout, block.without_memory()
            site.is_view = True
            return True
        kinds = [x.spec if isinstance(x, Tensor) else x for x in operands]
        cost = self.deferral.cost(site.op, kinds, site.attributes)
        if cost.layout is None or cost.layout is not layout_of(out):
            return False
        site.layout, site.seconds, site.nbytes = cost.layout, cost.seconds, cost.layout.nbytes
        return True

    def begin(self) -> None:
        """Take the recorder's place, if it does nothing but listen."""
        recorder, rounds = self.recorder, self.recorder.rounds
        if MODES.recorder is not recorder or MODES.deferral is not self.deferral or MODULES:
            return
        if self.deferral.interruptions > MOST_INTERRUPTIONS or self.futile > MOST_FUTILE:
            return
        other = recorder.failure, recorder.watched, recorder.scope, recorder.trial, recorder.pending
        if any(x is not None for x in other) or recorder.packs or recorder.parts:
            return
        if recorder.handed_out:  # numbers that vary, which ask what listens
            return
        if rounds is not None and rounds.visits:
            return
        self.futile += 1
        self.live = True
        MODES.recorder = self

    # --- the end ---------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Let the recorder go on."""
        if MODES.recorder is self:
            MODES.recorder = self.recorder
        self.live = False
        if self.waiting:
            self.write()

    def write(self) -> None:
        """Write down what was foreseen."""
        waiting, self.waiting, self.nbytes = self.waiting, [], 0
        self.count += len(waiting)
        self.futile = 0
        if self.recorder.failure is None:
            with self.recorder.careful("what was foreseen"):
                write_again(self.recorder, waiting)


def _place() -> Place | None:
    """Where the user's code is."""
    user = user_frame()
    frame, above = sys._getframe(1), 0
    while frame.f_code is not apply.__code__:
        if frame.f_back is None:
            return None
        frame = frame.f_back
    while frame is not user:
        if frame.f_back is None:
            return None
        frame, above = frame.f_back, above + 1
    assert user is not None
    line = sys.intern(user.f_code.co_filename), user.f_lineno
    return user.f_code, user.f_lasti, above, line
