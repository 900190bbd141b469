"""The old path of `gymbridge.gradients.autograd`."""

from __future__ import annotations

from gymbridge.gradients.autograd import JaxFunction as JaxFunction
from gymbridge.gradients.autograd import Traced as Traced

__all__ = ["JaxFunction", "Traced"]
