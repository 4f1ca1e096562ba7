"""Calls a PyTorch module with other weights than its own, without changing it."""

import collections
import contextlib
import dataclasses
import functools
import importlib
import inspect
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import jax

from learndyn.models.inputs import Inputs, apart, applied, chosen
from learndyn.runtime.checks import a_kind
from learndyn.runtime.tensors import full_products

# Imported by name, as Any: type checkers would need the types of PyTorch, which is optional.
torch: Any = importlib.import_module("torch")
nn = torch.nn
functional = importlib.import_module("torch.nn.functional")
checkpoints = importlib.import_module("torch.utils.checkpoint")
overrides = importlib.import_module("torch.overrides")
pytree = importlib.import_module("torch.utils._pytree")
EMBEDDINGS = (functional.embedding, functional.embedding_bag)
CONTAINERS = (dict, list, set, collections.deque)
HALF = (torch.float16, torch.bfloat16)
NARROWING = (torch.Tensor.half, torch.Tensor.bfloat16)
# `torch.func.vmap` takes them apart.
pytree.register_pytree_node(
    Inputs, jax.tree.flatten, lambda leaves, structure: jax.tree.unflatten(structure, leaves)
)


def trainable(module: Any) -> dict[str, Any]:
    """The weights: copies of the parameters that require gradients; shared ones occur once.

    Those in half precision become float32, or float64 if others are.
    """
    with torch.inference_mode(False), torch.no_grad():
        own = {n: p.detach().clone() for n, p in module.named_parameters() if p.requires_grad}
    wide = {w.dtype for w in own.values()} - set(HALF)
    if len(wide) < len({w.dtype for w in own.values()}):
        say_wide("weights")
        own = {n: w.to(next(iter(wide), torch.float32)) for n, w in own.items()}
    return own


@functools.cache
def say_wide(what: str) -> None:
    """Warns, once for every reason, that half precision is not used."""
    warnings.warn(
        f"model: got {what} in half precision; probes compute them in float32", stacklevel=2
    )


def call(module: Any, weights: Mapping[str, Any], x: Any) -> Any:
    """Outputs at given weights, (examples, …); the module is not changed."""
    before, drawn = _generator_states(x), False
    precision = next(iter(weights.values())).dtype
    try:
        with _holding(module, weights, precision), _Derivable(x.device.type, precision):
            # Modules may change their inputs.
            outputs = chosen(applied(module, apart(x.clone())), getattr(x, "output", None))
    finally:
        after = _generator_states(x)
        drawn = not all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        if drawn:  # also after an error: the user's random numbers are not to change
            _set_generator_states(before, x)
    if drawn:
        raise ValueError("model: it draws random numbers; allowed is one without, module.eval()")
    return _outputs(outputs, x)


@contextlib.contextmanager
def _holding(module: Any, weights: Mapping[str, Any], precision: Any) -> Iterator[None]:
    """Puts weights, and copies of all other tensors, into a module for the time of one call.

    They replace the module's own tensors wherever a part holds them: as parameters, as buffers, in
    plain attributes and in containers. Copies of tensors in half precision have that of the
    weights. Afterwards everything is restored, including attributes that the call changed. A part
    that is used in several places is treated once.
    """
    own: dict[int, Any] = {}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        own[id(tensor)] = weights[name] if name in weights else _copy(tensor, precision)
    parts = [vars(part) for part in module.modules()]
    kept = [(attributes, dict(attributes), _contents(attributes)) for attributes in parts]
    try:
        for attributes, _, containers in kept:
            for container in (attributes, *(c for c, _ in containers)):
                _replace(container, own, precision)
            # Backward hooks may change gradients, which would then not be derivatives.
            attributes.update(_backward_hooks={}, _backward_pre_hooks={})
        yield
    finally:
        for attributes, before, containers in kept:
            attributes.clear()
            attributes.update(before)
            for container, contents in containers:
                if container or contents:
                    container.clear()
                    fill = "update" if isinstance(container, dict | set) else "extend"
                    getattr(container, fill)(contents)


def _contents(attributes: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """The containers among the attributes and inside of each other, with copies of their contents.

    Containers are lists, deques, dicts, sets, and the attributes of namespaces and dataclasses.
    """
    found: dict[int, tuple[Any, Any]] = {}
    waiting = list(attributes.values())
    while waiting:
        each = waiting.pop()
        is_record = isinstance(each, types.SimpleNamespace) or dataclasses.is_dataclass(each)
        if is_record and not isinstance(each, type) and hasattr(each, "__dict__"):
            each = vars(each)
        if isinstance(each, tuple):  # nothing to restore, but it may hold containers
            waiting += each
        elif isinstance(each, CONTAINERS) and id(each) not in found:
            found[id(each)] = each, each.copy()
            waiting += each.values() if isinstance(each, dict) else each
    return list(found.values())


def _copy(tensor: Any, precision: Any) -> Any:
    copied = tensor.detach().clone()
    return copied.to(precision) if copied.dtype in HALF else copied


def _replace(container: Any, own: dict[int, Any], precision: Any) -> None:
    """Replaces the module's tensors by those in `own`, and all other tensors by copies."""
    if not container or isinstance(container, set):
        return
    for place, value in list(
        container.items() if isinstance(container, dict) else enumerate(container)
    ):
        if isinstance(value, torch.Tensor):
            container[place] = own[id(value)] if id(value) in own else _copy(value, precision)


class _Derivable(overrides.TorchFunctionMode):
    """A mode in which PyTorch functions have true derivatives in the precision of the weights.

    Args:
        device: the type of the device, such as "cpu".
        precision: of the weights; it replaces half precision wherever the module asks for that.
    """

    def __init__(self, device: str, precision: Any):
        super().__init__()
        self.device, self.precision = device, precision

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if torch.is_autocast_enabled(self.device):
            raise ValueError(
                "model: got one that calls torch.set_autocast_enabled; allowed is `with "
                "torch.autocast(…)`, which is switched off"
            )
        if func in NARROWING:
            say_wide("operations")
            return args[0].to(self.precision)
        args, kwargs = tuple(map(self._wide, args)), kwargs or {}
        kwargs = {name: self._wide(value) for name, value in kwargs.items()}
        if func is torch._weight_norm:  # PyTorch's second derivative takes the norm as constant
            return _weight_norm(*args, **kwargs)
        if func in EMBEDDINGS:
            return _embedding(func, inspect.signature(func).bind(*args, **kwargs))
        return func(*args, **kwargs)

    def _wide(self, value: Any) -> Any:
        if isinstance(value, torch.dtype) and value in HALF:
            say_wide("operations")
            return self.precision
        return value


def _weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    """g v/|v|, as PyTorch defines it, with the norm over all axes but one."""
    return v * (g / torch.norm_except_dim(v, 2, dim))


def _embedding(function: Any, bound: inspect.BoundArguments) -> Any:
    """An embedding whose forward and backward derivatives are dense and agree."""
    options = bound.arguments
    if options.get("max_norm") is not None or options.get("scale_grad_by_freq"):
        raise ValueError(
            "model: got one that calls embedding(max_norm=…, scale_grad_by_freq=…); allowed is "
            "one without, whose gradients are derivatives"
        )
    options["sparse"], fixed = False, options.get("padding_idx")
    if function is functional.embedding:
        options["padding_idx"] = None
    found = function(*bound.args, **bound.kwargs)
    # PyTorch gives the padding row the derivative 0 in backward mode only.
    if function is functional.embedding and fixed is not None:
        is_fixed = options["input"] == fixed % len(options["weight"])
        found = torch.where(is_fixed[..., None], found.detach(), found)
    return found


def _outputs(outputs: Any, x: Any) -> Any:
    if not isinstance(outputs, torch.Tensor):
        raise ValueError(
            f"outputs: got {a_kind(outputs)}; allowed is one tensor, or as_model(module, "
            "output=…), the key, index or attribute of one"
        )
    if outputs.ndim == 0 or len(outputs) != len(x):
        came = f"shape {tuple(outputs.shape)} for {len(x)} examples"
        raise ValueError(f"outputs: got {came}; allowed is (examples, …)")
    if outputs.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"outputs: got {outputs.dtype}; allowed is float32 or float64")
    return outputs


def flat(outputs: Any) -> Any:
    """Outputs as (examples, outputs)."""
    return outputs.reshape(len(outputs), -1)


def _generator_states(x: Any) -> list[Any]:
    """The states of the random generators, of the CPU and of the device of x."""
    on_device = [torch.cuda.get_rng_state(x.device)] if x.is_cuda else []
    return [torch.random.get_rng_state(), *on_device]


def _set_generator_states(states: list[Any], x: Any) -> None:
    torch.random.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state(states[1], x.device)


class _Kept:
    """Replaces a checkpoint: the function is called once, and its intermediate values are kept."""

    @staticmethod
    def apply(function: Any, preserve: bool, *args: Any) -> Any:
        return function(*args)

    @staticmethod
    def around(*args: Any, **kwargs: Any) -> Iterator[None]:
        """A generator that does nothing before and after the call."""
        yield


CHECKPOINTS = {
    "CheckpointFunction": _Kept,
    "_checkpoint_without_reentrant_generator": _Kept.around,
}


@contextlib.contextmanager
def derivatives() -> Iterator[None]:
    """A context in which operations have forward and backward derivatives, for any user settings.

    Compiled parts run uncompiled, checkpoints keep their intermediate values (which they would
    otherwise recompute later, at other weights), and autocast is off, inside the module too.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # the fast path has no derivative
    try:
        with contextlib.ExitStack() as stack:
            for setting in _settings():
                stack.enter_context(setting)
            yield
    except NotImplementedError as error:
        why = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"model: PyTorch cannot differentiate it ({why}); allowed is a differentiable module"
        ) from None
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _not_cast(context: Any) -> Any:
    """Takes the place of `torch.autocast.__enter__`."""
    if getattr(context, "_enabled", True):
        say_wide("operations")
    return context


def _settings() -> Iterator[Any]:
    yield torch.inference_mode(False)
    yield torch.enable_grad()
    yield torch.jit.optimized_execution(False)  # optimised, scripted functions lose tangents
    # The other attention kernels do not have all derivatives.
    yield torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    yield full_products()
    for name, kept in CHECKPOINTS.items():
        if hasattr(checkpoints, name):  # private names, which another release may not have
            yield mock.patch.object(checkpoints, name, kept)
    leave = lambda *given: None
    yield mock.patch.multiple(torch.autocast, __enter__=_not_cast, __exit__=leave)
    if "torch._dynamo" in sys.modules:  # else nothing is compiled
        yield torch.compiler.set_stance("force_eager")
