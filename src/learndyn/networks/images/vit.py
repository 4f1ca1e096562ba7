"""Vision transformers."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.images.parts import AbstractImageNetwork, Layer, dense
from learndyn.networks.parts import affine
from learndyn.runtime.checks import positive_int
from learndyn.runtime.types import Array, Number, Weights

SMALL = 1e-5  # added to the variance in a layer norm, against division by zero


class Tokens(NamedTuple):
    """The weights of a vision transformer.

    Attributes:
        layers: a tuple of `Affine`: embedding; for each block queries, keys and values together,
            projection, and the two layers of its network; the output.
        norms: a tuple of `Affine` with weights and biases (width,): two per block, then the last.
        position: (1 + patches, width), added to the tokens.
        token: (width,), the additional first token, from which the output is computed.
    """

    layers: tuple[affine.Affine, ...]
    norms: tuple[affine.Affine, ...]
    position: Array
    token: Array


class ViT(AbstractImageNetwork):
    """A vision transformer: attention between patches of an image.

    Patches of patch × patch pixels are embedded by a dense layer, a trained token is put in front,
    and trained positions are added. Each block adds to x a projection of the heads'
    softmax(q kᵀ/√(width/heads)) v of LN(x), and then W₂ g(W₁ LN(x)). The output is a dense layer of
    LN of the first token. LN centres a token, divides it by its standard deviation over the width,
    and has one weight and one bias per entry, initially 1 and 0. Scalings and distributions of
    dense layers are those of `MLP`; positions and token are N(0, 1). Nodes are "layer1", …: the
    dense layers in the order of `Tokens.layers`.

    Args:
        patch: side of a patch; the sides of images must be multiples of it.
        width: number of entries of a token; a multiple of `heads`.
        depth: number of blocks.
        heads: number of attention heads per block.
        outputs: number of outputs; a single output is a scalar.
        activation: g, as in `MLP`.
        hidden: number of neurons between W₁ and W₂; None for 4 · width.
        parameterisation: "ntk" or "standard".
        bias: whether dense layers have biases.
        output: map of the last pre-activation: "identity", "softmax", "sigmoid" or "tanh".
        gain: factor of the initial weights of dense layers.

    Raises:
        ValueError: for a width that is not a multiple of the heads, sizes that are not
            positive integers, or another argument that is not allowed.

    Example:
        >>> import learndyn as ld
        >>> ld.ViT(patch=4, width=32, depth=2, heads=4, outputs=10).output_shape((32, 32, 3))
        (10,)
    """

    patch: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    heads: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    activation: Any = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    output: str = eqx.field(static=True)
    gain: np.ndarray

    def __init__(
        self,
        patch: int,
        width: int,
        depth: int,
        heads: int,
        outputs: int,
        activation: Any = "relu",
        *,
        hidden: int | None = None,
        parameterisation: str = "ntk",
        bias: bool = False,
        output: str = "identity",
        gain: Number = 1.0,
    ):
        self.patch = positive_int("patch", patch)
        self.width = positive_int("width", width)
        self.depth = positive_int("depth", depth)
        self.heads = positive_int("heads", heads)
        if self.width % self.heads:
            raise ValueError(f"width: got {width}; allowed are multiples of the {heads} heads")
        self.hidden = 4 * self.width if hidden is None else positive_int("hidden", hidden)
        self.outputs = positive_int("outputs", outputs)
        self.activation, self.parameterisation, self.bias, self.output, self.gain = affine.checked(
            activation, parameterisation, bias, output, gain
        )

    def __call__(self, weights: Weights, x: Array) -> Array:
        g, norms = affine.function(self.activation), iter(weights.norms)
        apply = self.applied(weights.layers).dense
        tokens = apply(self._patches(x))
        first = jnp.broadcast_to(weights.token, (len(x), 1, self.width)).astype(tokens.dtype)
        x = jnp.concatenate([first, tokens], axis=1) + weights.position
        for _ in range(self.depth):
            x = x + apply(self._attended(apply(_normalised(x, next(norms)))))
            x = x + apply(g(apply(_normalised(x, next(norms)))))
        return affine.finish(apply(_normalised(x[:, 0], next(norms))), self.output)

    def _patches(self, x: Array) -> Array:
        """The patches of images, row by row: (batch, patches, pixels · channels)."""
        n, height, width, channels = x.shape
        p = self.patch
        split = x.reshape(n, height // p, p, width // p, p, channels)
        return split.swapaxes(2, 3).reshape(n, -1, p * p * channels)

    def _attended(self, qkv: Array) -> Array:
        """Values averaged with the attention weights of each head, (batch, tokens, width)."""
        n, tokens, _ = qkv.shape
        q, k, v = jnp.moveaxis(qkv.reshape(n, tokens, 3, self.heads, -1), 2, 0)
        # A float64 scalar of NumPy would turn float32 scores into float64, hence the cast.
        scores = jnp.einsum("nthd,nshd->nhts", q, k) / np.sqrt(q.shape[-1]).astype(qkv.dtype)
        mixed = jnp.einsum("nhts,nshd->nthd", jax.nn.softmax(scores, axis=-1), v)
        return mixed.reshape(n, tokens, self.width)

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        layers = super().sample(rng, input_shape)
        like = self.like(input_shape)
        norms = tuple(affine.Affine(np.ones(self.width), np.zeros(self.width)) for _ in like.norms)
        position = rng.standard_normal(like.position.shape)
        return Tokens(layers, norms, position, rng.standard_normal(self.width))

    def like(self, input_shape: tuple[int, ...]) -> Weights:
        norm, height, width = affine.like((self.width,), self.width), *input_shape[:2]
        patches = (height // self.patch) * (width // self.patch)
        position, token = (affine.like(s, None).weight for s in
                           ((1 + patches, self.width), (self.width,)))  # fmt: skip
        norms = (norm,) * (2 * self.depth + 1)
        layers = tuple(super().like(input_shape) or ())
        return Tokens(layers, norms, position, token)

    def layers(self, input_shape: tuple[int, ...]) -> list[Layer]:
        width, hidden = self.width, self.hidden
        block = [dense(width, 3 * width), dense(width, width)]
        block += [dense(width, hidden), dense(hidden, width)]
        embedding = dense(self.patch**2 * input_shape[-1], width)
        return [embedding, *block * self.depth, dense(width, self.outputs)]

    def check_input(self, input_shape: tuple[int, ...]) -> None:
        super().check_input(input_shape)
        self.check_sides(input_shape, self.patch)


def _normalised(x: Array, norm: affine.Affine) -> Array:
    """A layer norm over the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    spread = jnp.sqrt((centred**2).mean(-1, keepdims=True) + SMALL)
    return norm.weight * centred / spread + norm.bias
