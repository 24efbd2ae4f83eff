"""Module: parameters, buffers and submodules registered by attribute, hooks around ``forward``."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..tensor import Tensor
from . import hooks as module_hooks
from . import state
from .parameter import Buffer, Parameter
from .shown_hooks import ShownHooks
from .state_hooks import StateHooks
from .structure import STRUCTURE_VERSION, changed
from .tree import ModuleTree

M = TypeVar("M", bound="Module")

__all__ = ["STRUCTURE_VERSION", "Module"]


class Module(StateHooks, ShownHooks, ModuleTree):
    """Base class of all layers and models.

    Assigning a :class:`Parameter`, a module or a :class:`Buffer` to an attribute registers it. Subclasses write
    ``forward``; calling the module runs it, with hooks if there are any.

    >>> import tracejit as tj
    >>> class Scale(tj.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = tj.nn.Parameter(tj.ones(1) * 3)
    ...
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(tj.ones(2)).detach()
    tensor([3., 3.])
    """

    training: bool
    _version: int
    _hooks: module_hooks.Hooks | None
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _transient: set[str]

    def __init__(self) -> None:
        self.__dict__.update(
            training=True,
            _version=0,
            _hooks=None,
            _parameters={},
            _buffers={},
            _modules={},
            _transient=set(),
        )

    @property
    def _non_persistent_buffers_set(self) -> set[str]:
        """The names of the buffers that are not saved."""
        return self._transient

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module computes; subclasses define it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward``, with hooks if there are any."""
        if self._hooks is None and not module_hooks.EVERYWHERE_PRESENT[0]:
            return self.forward(*args, **kwargs)
        return module_hooks.call(self, args, kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module does apart from running compiled: ``forward``, with hooks."""
        return module_hooks.call_plainly(self, args, kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Have calls of the module run compiled from now on; takes what :func:`tracejit.compile` takes.

        The module stays what it is. ``compile(module)`` returns another object for the same parameters.

        >>> import tracejit as tj
        >>> model = tj.nn.Linear(2, 1)
        >>> model.compile()
        >>> tuple(model(tj.ones(1, 2)).shape), model
        ((1, 1), Linear(in_features=2, out_features=1, bias=True))
        """
        from ..compiled_module import compiled_call

        self._own_hooks().compiled = self, compiled_call(self, *args, **kwargs)
        changed(self)

    # --- attributes -----------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_parameters" in own:  # absent until __init__ ran
            if name in own["_parameters"]:
                return own["_parameters"][name]
            if name in own["_modules"]:
                return own["_modules"][name]
            if name in own["_buffers"]:
                return own["_buffers"][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, (Parameter, Module, Buffer)) or self._registered(name):
            self._set_registered(name, value)
        elif name in own and own[name] is value:
            return
        else:
            object.__setattr__(self, name, value)
        changed(self)

    def _registered(self, name: str) -> bool:
        own = self.__dict__
        return "_parameters" in own and (
            name in own["_parameters"] or name in own["_modules"] or name in own["_buffers"]
        )

    def _set_registered(self, name: str, value: Any) -> None:
        """Put ``value`` into the table of its kind, or refuse what does not fit the name's kind."""
        own = self.__dict__
        kind = {Parameter: "_parameters", Module: "_modules", Buffer: "_buffers"}
        target = next((table for cls, table in kind.items() if isinstance(value, cls)), None)
        if "_parameters" not in own:
            what = {"_parameters": "parameters", "_modules": "module", "_buffers": "buffer"}
            assert target is not None
            raise AttributeError(f"cannot assign {what[target]} before Module.__init__() call")
        if target is None:
            target = self._accepting(name, value)
        for table in (own, *(own[t] for t in kind.values() if t != target)):
            table.pop(name, None)
        if isinstance(value, Buffer):
            self.register_buffer(name, value, value.persistent)
        elif isinstance(value, Parameter):
            self.register_parameter(name, value)
        else:
            new = {"_modules": "new_module", "_buffers": "new_buffer"}.get(target)
            if new is not None:
                value = module_hooks.registered(new, self, name, value)
            own[target][name] = value

    def _accepting(self, name: str, value: Any) -> str:
        """The table that holds ``name``; ``TypeError`` unless ``value`` may take its place there."""
        own = self.__dict__
        if name in own["_buffers"] and (value is None or isinstance(value, Tensor)):
            return "_buffers"
        expected = {
            "_parameters": ("parameter", "tracejit.nn.Parameter"),
            "_modules": ("child module", "tracejit.nn.Module"),
            "_buffers": ("buffer", "tracejit.Tensor"),
        }
        table = next(t for t in expected if name in own[t])
        if value is None:
            return table
        role, wanted = expected[table]
        raise TypeError(
            f"cannot assign '{kind_name(value)}' as {role} '{name}' ({wanted} or None expected)"
        )

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._transient.discard(name)
                break
        else:
            object.__delattr__(self, name)
        changed(self)

    def __dir__(self) -> list[str]:
        names = {*object.__dir__(self), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[:1].isdigit())

    def _check_name(self, what: str, name: str, table: Mapping[str, Any]) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; ``None`` keeps the name without a value."""
        self._check_name("parameter", name, self.__dict__.get("_parameters", {}))
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{kind_name(param)}' as parameter '{name}' "
                "(tracejit.nn.Parameter or None expected)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                "To express a parameter as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = module_hooks.registered("new_parameter", self, name, param)
        changed(self)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; ``persistent=False`` keeps it out of ``state_dict()``."""
        self._check_name("buffer", name, self.__dict__.get("_buffers", {}))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{kind_name(tensor)}' as buffer '{name}' (tracejit.Tensor or None expected)"
            )
        self._buffers[name] = module_hooks.registered("new_buffer", self, name, tensor)
        (self._transient.discard if persistent else self._transient.add)(name)
        changed(self)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under ``name``."""
        if module is not None and not isinstance(module, Module):
            raise not_a_module(module)
        self._check_name("module", name, self.__dict__.get("_modules", {}))
        self._modules[name] = module_hooks.registered("new_module", self, name, module)
        changed(self)

    register_module = add_module

    # --- hooks ----------------------------------------------------------------------------------------------

    def _own_hooks(self) -> module_hooks.Hooks:
        if self._hooks is None:
            self.__dict__["_hooks"] = module_hooks.Hooks()
        assert self._hooks is not None
        return self._hooks

    def _add_hook(self, kind: str, entry: Any, prepend: bool) -> module_hooks.HookHandle:
        return self._own_hooks().add(kind, self, entry, prepend)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> module_hooks.HookHandle:
        """Call ``hook(module, args)`` before ``forward``; what it returns replaces the arguments."""
        return self._add_hook("forward_pre", (hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> module_hooks.HookHandle:
        """Call ``hook(module, args, output)`` after ``forward``; what it returns replaces the output."""
        return self._add_hook("forward", (hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> module_hooks.HookHandle:
        """Call ``hook(module, grad_output)`` before the module's backward."""
        return self._add_hook("backward_pre", hook, prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> module_hooks.HookHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are known."""
        return self._add_hook("backward", hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> module_hooks.HookHandle:
        """The older ``register_full_backward_hook``: ``grad_input`` is that of the module's last operation only."""
        if self._hooks is not None and self._hooks.backward:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        return self._add_hook("last_step", hook, False)

    # --- state ----------------------------------------------------------------------------------------------

    def state_dict(
        self,
        *,
        destination: OrderedDict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> OrderedDict[str, Any]:
        """Parameters and persistent buffers by dotted name, detached unless ``keep_vars``."""
        return state.state_dict(
            self, state.new_state() if destination is None else destination, prefix, keep_vars
        )

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> state._IncompatibleKeys:
        """Copy values by name into parameters and buffers (or, with ``assign``, replace the tensors).

        Raises ``RuntimeError`` listing shapes that differ and, when ``strict``, names missing or unexpected.
        """
        return state.load_state_dict(self, state_dict, strict, assign)

    def _save_to_state_dict(
        self, destination: OrderedDict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Put the module's own values into ``destination``; subclasses may change what is saved."""
        state.save_own(self, destination, prefix, keep_vars)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load the module's own values from ``state_dict``; subclasses may change what is loaded."""
        state.load_own(
            self,
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )

    def __setstate__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


def kind_name(value: Any) -> str:
    """The name of a value's class as error messages spell it: with its module unless it is a built-in."""
    cls = type(value)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


def not_a_module(value: Any) -> TypeError:
    """The error for a value where a module is wanted, which may be one of PyTorch.

    >>> not_a_module(3)
    TypeError('int is not a Module subclass')
    """
    cls = type(value)
    text = f"{cls.__qualname__} is not a Module subclass"
    if any(c.__module__ == "torch.nn.modules.module" for c in cls.__mro__):
        text += f" of tracejit: {cls.__module__} makes modules of PyTorch. "
        einops = cls.__module__ == "einops.layers.torch"
        text += f"Import it from tracejit.{'einops_layers' if einops else 'nn'} instead."
    return TypeError(text)
