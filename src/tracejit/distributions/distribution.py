"""Distribution: what all of them share, and divergences between two of one kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..autograd.grad_mode import no_grad
from ..dtypes import get_default_dtype
from ..ops.functions.shaping import broadcast_shapes
from ..ops.functions.value_checks import is_expected
from ..ops.mixin import Size
from ..tensor import Tensor
from ..tensor_make import as_tensor
from ..varying import as_number
from .constraints import is_dependent
from .lazy import lazy_property

__all__ = ["Distribution", "kl_divergence", "register_kl"]

_DIVERGENCES: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


class Distribution:
    """A batch of distributions with parameters of shape ``batch_shape``."""

    has_rsample = False
    has_enumerate_support = False
    #: Constraints of parameters by name, which the constructor checks.
    arg_constraints: ClassVar[Any] = {}
    support: Any = None
    _validate_args: bool = __debug__

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_arguments()
        super().__init__()  # that of a module, say, which a program derives from as well

    def _take(self, validate_args: bool | None, **parameters: Any) -> None:
        """Parameters of one shape, that of the batch."""
        self.__dict__.update(zip(parameters, broadcast(*parameters.values()), strict=True))
        shape = self.__dict__[next(iter(parameters))].shape
        Distribution.__init__(self, shape, (), validate_args)

    def _check_arguments(self) -> None:
        """``ValueError`` for the first parameter outside its constraint; what is computed later is left alone."""
        for name, constraint in self.arg_constraints.items():
            later = name not in self.__dict__ and isinstance(
                getattr(type(self), name, None), lazy_property
            )
            if not later and not is_dependent(constraint):
                self._check(name, getattr(self, name), constraint)

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Check parameters unless a distribution is told otherwise, or do not."""
        Distribution._validate_args = value

    @property
    def batch_shape(self) -> Any:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one draw from one distribution."""
        return self._event_shape

    def _extended(self, sample_shape: Sequence[int]) -> tuple[int, ...]:
        return (*sample_shape, *self._batch_shape, *self._event_shape)

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Any:
        """The shape of draws."""
        return Size(self._extended(sample_shape))

    def _validate_sample(self, value: Any) -> None:
        """``ValueError`` for what is no tensor, has no shape that fits, or lies outside a support that is known."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, event = tuple(value.shape), tuple(self._event_shape)
        if event and shape[-len(event) :] != event:
            raise ValueError(
                f"The right-most size of value must match event_shape: {shape} vs {event}."
            )
        whole = (*self._batch_shape, *event)
        for size, expected in zip(reversed(shape), reversed(whole), strict=False):
            if size not in (1, expected) and expected != 1:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {whole}."
                )
        support = self.support
        if support is None or is_dependent(support):
            return
        if not is_expected(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {shape}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return self.variance.sqrt()

    @property
    def variance(self) -> Any:
        """The mean of squared distances from the mean."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most probable value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values, along a new first dimension; ``NotImplementedError`` where they are not finitely many."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """exp of the entropy."""
        return self.entropy().exp()

    def sample_n(self, n: int) -> Any:
        """``n`` draws."""
        return self.sample((n,))

    def cdf(self, value: Any) -> Any:
        """The probability of being at most ``value``."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The value that is not exceeded with this probability."""
        raise NotImplementedError

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution for a larger batch: tensors, and distributions it is made of, are expanded."""
        made = type(self).__new__(type(self)) if _instance is None else _instance
        old, new = tuple(self._batch_shape), tuple(batch_shape)
        for name, value in self.__dict__.items():
            if isinstance(value, Distribution):
                value = value.expand((*new, *value.batch_shape[len(old) :]))
            if isinstance(value, Tensor) and tuple(value.shape[: len(old)]) == old:
                value = value.expand((*new, *value.shape[len(old) :]))
            made.__dict__[name] = value
        made._batch_shape = Size(new)
        return made

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """What an ``expand`` of a class of one's own fills: ``_instance``, or a new one that ``cls`` knows to fill."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return type(self).__new__(type(self))

    def __repr__(self) -> str:
        given = {
            name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__
        }
        shown = [f"{name}: {x if x.numel() == 1 else x.shape}" for name, x in given.items()]
        return f"{type(self).__name__}({', '.join(shown)})"

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draws without gradients, of shape ``sample_shape`` before that of the batch."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draws as functions of the parameters; ``NotImplementedError`` where there is none."""
        raise NotImplementedError(f"{type(self).__name__} has no reparametrised sample")

    def log_prob(self, value: Any) -> Any:
        """The logarithm of density or probability at ``value``."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The mean of -log p."""
        raise NotImplementedError

    def _check(self, name: str, value: Any, constraint: Any) -> None:
        """``ValueError`` unless all of a parameter satisfies its constraint."""
        if not is_expected(constraint.check(value).all()):
            raise ValueError(
                f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"of distribution {self!r} to satisfy the constraint {constraint!r}, "
                f"but found invalid values:\n{value}"
            )


def broadcast(*values: Any) -> list[Any]:
    """Numbers and tensors as tensors of one shape; numbers take the dtype of the tensors.

    >>> import tracejit as tj
    >>> broadcast(tj.zeros(2), 1.0)[1]
    tensor([1., 1.])
    """
    tensors = [value for value in values if isinstance(value, Tensor)]
    if any(x is None or isinstance(x, (str, list, tuple)) for x in values):
        raise ValueError("Input arguments must all be numbers or tensors.")
    like = tensors[0].dtype if tensors else get_default_dtype()
    made = [v if isinstance(v, Tensor) else as_tensor(as_number(v), like) for v in values]
    shape = broadcast_shapes(*(tuple(x.shape) for x in made))
    return [x if tuple(x.shape) == tuple(shape) else x.expand(shape) for x in made]


def divergence(kind: type) -> Callable[[Callable[[Any, Any], Any]], Callable[[Any, Any], Any]]:
    """Declare the Kullback-Leibler divergence between two distributions of one kind.

    >>> callable(divergence(int))
    True
    """
    return register_kl(kind, kind)


def register_kl(
    type_p: type, type_q: type
) -> Callable[[Callable[[Any, Any], Any]], Callable[[Any, Any], Any]]:
    """Declare the divergence of a distribution of one kind from one of another, subclasses included.

    >>> callable(register_kl(int, str))
    True
    """

    def register(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        _DIVERGENCES[type_p, type_q] = function
        return function

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """KL(p || q), the mean of log p - log q under ``p``.

    Raises ``NotImplementedError`` for kinds between which none is known.

    >>> import tracejit as tj
    >>> p, q = tj.distributions.Normal(0.0, 1.0), tj.distributions.Normal(1.0, 1.0)
    >>> tj.distributions.kl_divergence(p, q)
    tensor(0.5000)
    """
    for kind in type(p).__mro__:
        for other in type(q).__mro__:
            if (kind, other) in _DIVERGENCES:
                return _DIVERGENCES[kind, other](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )
