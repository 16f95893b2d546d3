"""Arrays that report who reads and writes which element: what a kernel in Python gets while it is recorded."""

import operator

import numpy as np
import torch

from utils.cuda.player.numbers import shortest

__all__ = ["View", "is_array", "number_of"]

_MOST = 64  # elements of one access that are reported
_RESHAPING = {"reshape", "view", "flatten", "ravel", "transpose", "squeeze", "unsqueeze"}


def is_array(value) -> bool:
    """Whether a kernel's argument holds numbers of which each element can be read: a tensor, an array or a list."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, (int, float)) for item in value)
    return isinstance(value, (torch.Tensor, np.ndarray)) and value.ndim > 0


_KINDS = {"float32": "f4", "float16": "f2", "bfloat16": "bf16"}


def number_of(value):
    """A Python number for one of any library, None for anything else."""
    if isinstance(value, (torch.Tensor, np.generic, np.ndarray)) and getattr(value, "ndim", 0) == 0:
        kind, value = _KINDS.get(str(value.dtype).removeprefix("torch.")), value.item()
        return shortest(value, kind) if kind else value
    return value if isinstance(value, (bool, int, float)) else None


class View:
    """An array, or a part of one, that calls `report(kind, memory, elements, values)` for each access.

    `kind` is "read" or "write", and `elements` are flat indices of the whole array; `places` has them in the shape of
    this part. For an index outside the array, `elements` is the index as written, and `values` is None.
    """

    def __init__(self, array, memory, report, places=None):
        self._array, self._memory, self._report = array, memory, report
        shape = (len(array),) if isinstance(array, list) else tuple(array.shape)
        self._places = np.arange(int(np.prod(shape))).reshape(shape) if places is None else places

    def _part(self, index, kind):
        """The index as NumPy takes it, and the flat indices that it selects. Reports one that is outside."""
        plain = index
        if type(index) is not int:
            plain = tuple(map(_plain, index)) if isinstance(index, tuple) else _plain(index)
        try:
            return plain, self._places[plain]
        except IndexError:
            self._report(kind, self._memory, plain, None)
            return plain, None

    def __getitem__(self, index):
        plain, places = self._part(index, "read")
        found = self._array[plain]  # the array raises its own error
        if np.ndim(places):
            return View(found, self._memory, self._report, places)
        self._report("read", self._memory, [int(places)], [found])
        return found

    def __setitem__(self, index, value):
        plain, places = self._part(index, "write")
        self._array[plain] = _unwrapped(value)
        elements = np.atleast_1d(places).reshape(-1)[:_MOST].tolist()
        after = self._array[plain]
        values = list(after.reshape(-1)[:_MOST]) if np.ndim(places) else [after]
        self._report("write", self._memory, elements, values)

    def __len__(self):
        return len(self._array)

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    def __array__(self, dtype=None, copy=None):
        return np.asarray(_unwrapped(self), dtype=dtype)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        plain = {name: _unwrapped(value) for name, value in (kwargs or {}).items()}
        return function(*map(_unwrapped, args), **plain)

    def __getattr__(self, name):
        if name in ("T", "mT"):
            return View(getattr(self._array, name), self._memory, self._report, self._places.T)
        if name in _RESHAPING:
            return lambda *args, **kwargs: self._reshaped(name, args, kwargs)
        return getattr(self._array, name)

    def _reshaped(self, name, args, kwargs):
        changed = getattr(self._array, name)(*args, **kwargs)
        return View(changed, self._memory, self._report, self._places.reshape(tuple(changed.shape)))


def _plain(index):
    """An index as NumPy takes it."""
    return number_of(index) if isinstance(index, (torch.Tensor, np.generic)) and index.ndim == 0 else index


def _unwrapped(value):
    """The array of a View, all of it read; any other value as it is."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_unwrapped, value))
    if not isinstance(value, View):
        return value
    elements = value._places.reshape(-1)[:_MOST].tolist()
    array = value._array
    values = list(array[:_MOST] if isinstance(array, list) else array.reshape(-1)[:_MOST])
    value._report("read", value._memory, elements, values)
    return array


def _binary(function, swapped):
    def apply(self, other):
        pair = _unwrapped(self), _unwrapped(other)
        return function(*(reversed(pair) if swapped else pair))

    return apply


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    setattr(View, f"__{_name}__", _binary(getattr(operator, _name), False))
    setattr(View, f"__r{_name}__", _binary(getattr(operator, _name), True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(View, f"__{_name}__", _binary(getattr(operator, _name), False))
