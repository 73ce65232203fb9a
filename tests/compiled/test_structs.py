"""Compiled classes: plain Python classes whose source also runs as machine code."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import pytest
from typing_extensions import TypeAliasType

from switchmdp.compiled import (
    JIT,
    classes_in,
    fields_of,
    interpreted,
    is_compiled,
    machine,
    pack,
    unpack,
)

pytestmark = pytest.mark.skipif(not JIT, reason="needs machine code")

SOURCE = '''
from __future__ import annotations
from typing import Any, ClassVar
import numpy as np
from numpy.typing import NDArray
from switchmdp.compiled import compiled, freeze, specialised, thaw

def only_small(pile, x):
    if x > 100:
        raise ValueError("too large")
    return (x + 0,)

@compiled
class Pile:
    """A growing pile of numbers."""
    kind: ClassVar[str] = "pile"
    __doors__: ClassVar[dict[str, Any]] = {"push": only_small}
    n: int
    values: NDArray[np.float64]
    def __init__(self):
        self.n, self.values = 0, np.zeros(2)
    def push(self, x):
        if self.n == self.values.size:
            self.grow()
        self.values[self.n] = x
        self.n += 1
    def grow(self):
        larger = np.zeros(2 * self.values.size)
        for i in range(self.n):
            larger[i] = self.values[i]
        self.values = larger
    def scaled(self, x, factor=2.0):
        return x * factor

@compiled
class Doubled(Pile):
    """A pile of the doubles."""
    def push(self, x):
        if self.n == self.values.size:
            self.grow()
        self.values[self.n] = 2.0 * x
        self.n += 1

class Undecorated(Pile):
    pass

@compiled
class Box:
    """Holds a pile of any kind."""
    pile: Any
    step: int
    weight: float
    open: bool
    def __init__(self, pile=None):
        self.pile = Pile() if pile is None else pile
        self.step, self.weight, self.open = 1, 0.5, True
    def run(self, n):
        for i in range(n):
            self.pile.push(self.weight * i)
            self.step += 1
        self.open = not self.open

@specialised
def name(box, n):
    return 0
@name.when(lambda cls: cls.__name__ == "Box")
def _name_of_box(box, n):
    return 1 + n
@name.when(lambda cls: True)
def _name_of_any(box, n):
    return 2 + n

def fill(state, n):
    box = thaw(state)
    box.run(n)
    return freeze(box)

def fill_pile(state, n):
    pile = thaw(state)
    for i in range(n):
        pile.push(1000.0 * i)
    return freeze(pile)

def names(state, n):
    box = thaw(state)
    return name(box, n), name(box.pile, n)

def scale(state, x):
    return thaw(state).scaled(x)
'''


@pytest.fixture(scope="module")
def piles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module above, imported from a file: machine code on disk needs a source file."""
    path = tmp_path_factory.mktemp("piles") / "compiled_piles.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("compiled_piles", path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules["compiled_piles"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["compiled_piles"]


def run(function: Any, instance: Any, n: int) -> None:
    unpack(instance, machine(function, instance)(pack(instance), n))


def test_machine_code_does_what_the_python_class_does(piles: Any) -> None:
    plain, fast = piles.Box(), piles.Box()
    plain.run(7)
    run(piles.fill, fast, 7)
    assert fast.pile.values.tolist() == plain.pile.values.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3, 0]
    assert (fast.step, fast.open, fast.pile.n) == (plain.step, plain.open, plain.pile.n)


def test_an_array_that_grew_in_machine_code_is_returned(piles: Any) -> None:
    box = piles.Box()
    for _ in range(3):
        run(piles.fill, box, 10)
    assert box.pile.values.size == 32
    assert box.pile.n == 30
    assert box.step == 31


def test_fields_come_back_as_plain_python_values(piles: Any) -> None:
    box = piles.Box()
    run(piles.fill, box, 1)
    assert [type(x) for x in (box.step, box.weight, box.open)] == [int, float, bool]
    assert type(box.pile) is piles.Pile


def test_the_component_stays_the_same_object(piles: Any) -> None:
    box = piles.Box()
    pile = box.pile
    run(piles.fill, box, 3)
    assert box.pile is pile
    assert pile.n == 3


def test_scalar_fields_are_coerced_to_their_annotation(piles: Any) -> None:
    box = piles.Box()
    box.step, box.weight, box.open = 2.0, np.float32(1), np.int64(0)
    state = pack(box)
    assert [(type(x), x) for x in state[1:]] == [(int, 2), (float, 1.0), (bool, False)]


def test_an_array_field_is_coerced_to_its_annotation(piles: Any) -> None:
    pile = piles.Pile()
    pile.values = np.array([3, 4])
    assert pack(pile).values.dtype == np.float64


def test_a_list_in_an_array_field_is_never_interpreted_as_a_shape(piles: Any) -> None:
    pile = piles.Pile()
    pile.values = [2, 3]
    try:
        values = pack(pile).values
    except (TypeError, ValueError):
        return
    assert values.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("layout", ["read-only", "reversed", "strided"])
def test_arrays_of_any_layout_are_packed_contiguously(piles: Any, layout: str) -> None:
    pile = piles.Pile()
    values = {"read-only": np.ones(4), "reversed": np.ones(4)[::-1], "strided": np.ones(8)[::2]}
    pile.values = values[layout]
    pile.values.flags.writeable = layout != "read-only"
    flags = pack(pile).values.flags
    assert flags.c_contiguous
    assert flags.writeable
    assert flags.aligned


def test_another_array_layout_does_not_cause_a_compilation(piles: Any) -> None:
    box = piles.Box()
    function = machine(piles.fill, box)
    for _ in range(2):
        run(piles.fill, box, 3)
        box.pile.values = np.repeat(box.pile.values, 2)[::2]
        box.pile.values.flags.writeable = False
    assert machine(piles.fill, piles.Box()) is function
    assert len(function.signatures) == 1


def test_each_combination_of_components_is_compiled_separately(piles: Any) -> None:
    box = piles.Box(piles.Doubled())
    assert machine(piles.fill, box) is not machine(piles.fill, piles.Box())
    run(piles.fill, box, 3)
    assert box.pile.values[:3].tolist() == [0.0, 1.0, 2.0]


def test_a_subclass_inherits_fields_and_methods_and_overrides_them(piles: Any) -> None:
    pile = piles.Doubled()
    assert pack(pile)._fields == ("n", "values")
    run(piles.fill_pile, pile, 5)
    assert pile.values[:5].tolist() == [0.0, 2000.0, 4000.0, 6000.0, 8000.0]


def test_an_undecorated_subclass_is_not_treated_as_compiled(piles: Any) -> None:
    assert is_compiled(piles.Pile())
    assert not is_compiled(piles.Undecorated())
    assert not is_compiled(object())


def test_an_instance_with_an_undecorated_component_is_not_treated_as_compiled(
    piles: Any,
) -> None:
    assert is_compiled(piles.Box(piles.Doubled()))
    assert not is_compiled(piles.Box(piles.Undecorated()))


def test_class_variables_are_not_fields(piles: Any) -> None:
    assert pack(piles.Pile())._fields == ("n", "values")
    assert piles.Pile.kind == "pile"


def test_calls_from_python_are_checked_and_calls_from_machine_code_are_not(piles: Any) -> None:
    pile = piles.Pile()
    with pytest.raises(ValueError, match="too large"):
        pile.push(1000.0)
    assert pile.n == 0
    run(piles.fill_pile, pile, 2)
    assert pile.values.tolist() == [0.0, 1000.0]


def test_a_default_argument_is_a_default_in_machine_code_too(piles: Any) -> None:
    pile = piles.Pile()
    assert machine(piles.scale, pile)(pack(pile), 21.0) == pile.scaled(21.0) == 42.0


def test_specialised_functions_select_the_first_match_only_in_machine_code(piles: Any) -> None:
    box = piles.Box()
    assert machine(piles.names, box)(pack(box), 10) == (11, 12)
    assert interpreted(piles.name)(box, 10) == 0


def test_pickled_instances_continue_unchanged(piles: Any) -> None:
    box = piles.Box()
    run(piles.fill, box, 5)
    copy = pickle.loads(pickle.dumps(box))
    run(piles.fill, copy, 5)
    run(piles.fill, box, 5)
    assert copy.pile.values.tolist() == box.pile.values.tolist()
    assert (copy.step, copy.open) == (box.step, box.open)


def test_the_classes_of_an_instance_include_its_bases_and_components(piles: Any) -> None:
    classes = classes_in(piles.Box(piles.Doubled()))
    assert classes == [piles.Box, piles.Doubled, piles.Pile]


def test_type_aliases_of_arrays_are_resolved() -> None:
    """From NumPy 2.5 on, NDArray itself is such an alias."""
    element = TypeVar("element", bound=np.generic)
    alias = TypeAliasType("alias", np.ndarray[Any, np.dtype[element]], type_params=(element,))

    class Holder:
        values: Any

    Holder.__annotations__["values"] = alias[np.uint32]
    assert fields_of(Holder)["values"].dtype == np.uint32
