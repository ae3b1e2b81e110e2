"""ENP: noise on the representation, shaped so that a linear reader errs by a chosen amount."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from colonnade.defend.invl_dnp import InvLDNP, frozen
from colonnade.defend.registry import DEFENSES
from colonnade.measure.risk import push


@DEFENSES.register("invl_enp")
class InvLENP(InvLDNP):
    """ENP (InvLoss, USENIX Security 2025): noise on the upload along what the bottom makes of sensitive directions.

    The noise is noise sqrt(d / rank) sum_i xi_i s_i u_i, with the singular values s_i and left vectors u_i of the
    record's Jacobian G: whoever reads a record linearly from its upload errs by noise^2 more for each value. Since
    s_i u_i = G v_i, one push of random v through the *record's own* Jacobian draws it, whether the directions v are the
    record's or shared. A reconstruction, like `invl_dnp`, whose units and arguments it shares. No gradient passes
    through the noise.

    Args:
        noise: root of the mean squared error that is added to a linear reader's (n).
        rank: number of directions.
        refresh: every how many training uploads directions are found anew; 1 gives each record its own.
    """

    name: ClassVar[str] = "invl_enp"
    cost: ClassVar[str] = (
        "4.6 x an undefended step: a forward-mode pass; now and then 25 bottom steps to find directions; 100 at each "
        "upload with refresh 1"
    )

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the representation plus the noise."""
        disturbance = self._disturbance(x, train)
        with frozen(self.bottom) as representation:
            noise = push(representation, x, disturbance.flatten(1)[:, None])[:, 0]
        return h + noise.to(h)
