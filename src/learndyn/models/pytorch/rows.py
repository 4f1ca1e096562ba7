"""Rows of a PyTorch module's Jacobian, factored where a layer allows it, and their products."""

from typing import Any, NamedTuple

from learndyn.models.pytorch.evaluation import torch
from learndyn.tangent.jacobian import pairs_are_cheaper


class Dense(NamedTuple):
    """Rows Σ_t δ_t a_tᵀ of a dense layer: a (n, t, d), δ (n, k, t, m)."""

    inputs: Any
    at_nodes: Any

    def gram(self, other: "Dense") -> Any:
        """Products of all rows with all of another set, (n, k, n', k')."""
        if self._in_pairs(len(other.inputs)):
            inputs = torch.tensordot(self.inputs, other.inputs, ([2], [2]))
            at_nodes = torch.tensordot(self.at_nodes, other.at_nodes, ([3], [3]))
            if inputs.shape[1] == 1:
                return inputs[:, 0, :, 0][:, None, :, None] * at_nodes[:, :, 0, :, :, 0]
            return torch.einsum("itjs,iatjbs->iajb", inputs, at_nodes)
        return self.formed().gram(other.formed())

    def formed(self) -> "Plain":
        """The rows themselves, in the layout of the weight."""
        return Plain(torch.einsum("ntd,nktm->nkmd", self.inputs, self.at_nodes).flatten(2))

    def numbers(self) -> int:
        """How many numbers one example needs, stored and formed by `gram`."""
        held = self.inputs[0].numel() + self.at_nodes[0].numel()
        formed = self.at_nodes.shape[1] * self.at_nodes.shape[3] * self.inputs.shape[2]
        return held + (0 if self._in_pairs(len(self.inputs)) else formed)

    def _in_pairs(self, others: int) -> bool:
        return pairs_are_cheaper(self.at_nodes.shape, self.inputs.shape[2], others)


class Looked(NamedTuple):
    """Rows of an embedding: those of the tokens (n, t) have the gradients δ (n, k, t, d)."""

    tokens: Any
    at_nodes: Any
    weight: Any  # (1, 0, entries of the table): its size; the first axis is that of examples

    def gram(self, other: "Looked") -> Any:
        """Products of all rows with all of another set: of the positions with equal tokens."""
        used, place = torch.unique(
            torch.cat([self.tokens.flatten(), other.tokens.flatten()]), return_inverse=True
        )
        mine, theirs = place.split([self.tokens.numel(), other.tokens.numel()])
        mine, theirs = mine.view_as(self.tokens), theirs.view_as(other.tokens)
        if len(used) > self.tokens.shape[1] * other.tokens.shape[1]:
            same = (mine[:, :, None, None] == theirs).to(self.at_nodes.dtype)
            pairs = torch.tensordot(self.at_nodes, other.at_nodes, ([3], [3]))
            return torch.einsum("itjs,iatjbs->iajb", same, pairs)
        rows, others = (
            _summed(p, s.at_nodes, len(used)) for p, s in ((mine, self), (theirs, other))
        )
        return Plain(rows).gram(Plain(others))

    def formed(self) -> "Plain":
        """The rows themselves, in the layout of the weight."""
        rows = self.weight.shape[2] // self.at_nodes.shape[3]
        return Plain(_summed(self.tokens, self.at_nodes, rows))

    def numbers(self) -> int:
        """How many numbers one example needs, stored and formed by `gram`."""
        return 2 * self.at_nodes[0].numel() + self.tokens[0].numel()


class Plain(NamedTuple):
    """The rows themselves, (n, k, entries)."""

    rows: Any

    def gram(self, other: "Plain") -> Any:
        """Products of all rows with all of another set, (n, k, n', k')."""
        return torch.tensordot(self.rows, other.rows, ([2], [2]))

    def formed(self) -> "Plain":
        """Itself."""
        return self

    def numbers(self) -> int:
        """How many numbers one example needs."""
        return self.rows[0].numel()


def summed(parts: list[Any]) -> Any:
    """The rows of a weight that is used in several places."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, Dense) for part in parts):  # as one layer at all of their positions
        return Dense(
            torch.cat([p.inputs for p in parts], 1), torch.cat([p.at_nodes for p in parts], 2)
        )
    return Plain(sum(part.formed().rows for part in parts))


def joined(first: Any, rest: Any) -> Any:
    """The rows of two sets of examples together."""
    return type(first)(*map(torch.cat, zip(first, rest, strict=True)))


def _summed(place: Any, at_nodes: Any, size: int) -> Any:
    """Gradients (n, k, t, d) summed over equal places (n, t), as rows (n, k, size · d)."""
    n, k, _, d = at_nodes.shape
    rows = at_nodes.new_zeros(n, k, size, d)
    index = place[:, None, :, None].expand_as(at_nodes)
    return rows.scatter_add_(2, index, at_nodes).flatten(2)
