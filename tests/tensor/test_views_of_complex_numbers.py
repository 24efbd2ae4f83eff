"""Views of complex numbers share memory: parts, pairs and conjugates, eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj

NUMBERS = [1 + 2j, 3 - 1j, -2 + 0.5j, 4j]


def numbers(**options):
    return tj.tensor(NUMBERS, dtype=tj.complex128, **options)


WRITES = {
    "real": lambda z: z.real.mul_(2),
    "imag": lambda z: z.imag.zero_(),
    "element": lambda z: z.real.__setitem__(0, 3.0),
    "setter": lambda z: setattr(z, "imag", 7.0),
    "pairs": lambda z: tj.view_as_real(z)[..., 0].fill_(1),
    "conjugate": lambda z: z.conj().add_(1 + 1j),
    "part of a conjugate": lambda z: z.conj()[1:].imag.mul_(3),
    "adjoint": lambda z: z.view(2, 2).mH[0].fill_(2j),
    "out": lambda z: tj.add(tj.ones(4, dtype=tj.float64), 1, out=z.real),
    "numbers": lambda z: tj.view_as_complex(tj.view_as_real(z)).mul_(1j),
}
EXPECTED = {
    "real": lambda z: z.real * 2 + 1j * z.imag,
    "imag": lambda z: z.real + 0j,
    "element": lambda z: np.array([3 + 2j, *z[1:]]),
    "setter": lambda z: z.real + 7j,
    "pairs": lambda z: 1 + 1j * z.imag,
    "conjugate": lambda z: (z.conj() + 1 + 1j).conj(),
    "part of a conjugate": lambda z: np.array([z[0], *(z[1:].real + 3j * z[1:].imag)]),
    "adjoint": lambda z: np.array([-2j, z[1], -2j, z[3]]),
    "out": lambda z: 2 + 1j * z.imag,
    "numbers": lambda z: z * 1j,
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("step", [1, 2], ids=["dense", "gaps"])
def test_writes_reach_the_base(name: str, step: int) -> None:
    z = tj.zeros(4 * step, dtype=tj.complex128)[::step]
    z.copy_(numbers())
    if step > 1 and name == "adjoint":
        return
    base, other = z if z._base is None else z._base, z.conj()
    version = base._version
    WRITES[name](z)
    expected = EXPECTED[name](np.array(NUMBERS))
    assert np.allclose(z.numpy(), expected)
    assert np.allclose(other.resolve_conj().numpy(), expected.conj())
    assert z._version == other._version == base._version > version


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name for name in WRITES if name != "out"])
def test_compiled_writes(name: str) -> None:
    def inside(z):
        y = z * 1
        kept = y.real
        WRITES[name](y)
        return y, kept, y * y.conj()

    def outside(z):
        WRITES[name](z)
        return z.imag

    compiled, compiled_outside = tj.compile(inside), tj.compile(outside)
    for shift in range(3):
        found = []
        for f, g in ((inside, outside), (compiled, compiled_outside)):
            leaf = (numbers() + shift).requires_grad_()
            results = f(leaf)
            sum((x * x.conj_physical()).real.sum() for x in results).backward()
            z = numbers() + shift
            part = g(z)
            part.sub_(1)
            found.append([x.detach().numpy() for x in (*results, leaf.grad, z)])
            found[-1].append([z._version, part._base is z])
        assert all(np.allclose(a, b) for a, b in zip(*found, strict=True))
    assert compiled.stats.compiled_calls == compiled_outside.stats.compiled_calls == 2


def test_gradients_through_written_views() -> None:
    leaf = numbers(requires_grad=True)
    z = leaf * 1
    z.real.mul_(3)
    z.conj().mul_(2)
    assert z.grad_fn is not None
    assert z.real.grad_fn is not None
    (z.real + 2 * z.imag).sum().backward()
    assert leaf.grad.tolist() == [6 + 4j] * 4
    for view in (leaf.real, leaf.conj(), tj.view_as_real(leaf)):
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            view.zero_()
    with tj.no_grad():
        leaf.imag.zero_()
    assert leaf.tolist() == [1, 3, -2, 0]


def test_saved_values_must_not_change_through_a_view() -> None:
    leaf = numbers(requires_grad=True)
    z = leaf * 1
    product = z * z
    z.detach().imag.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.real.sum().backward()


def test_conjugates_are_computed_when_read() -> None:
    z = numbers()
    turned = z.conj()
    assert turned.is_conj()
    assert not turned.conj().is_conj()
    assert turned.conj()._base is z
    assert turned.data_ptr() == z.data_ptr()
    assert turned.imag.is_neg()
    assert not turned.real.is_neg()
    assert turned[1:].is_conj()
    assert turned.detach().is_conj()
    assert not (turned * 1).is_conj()
    assert not turned.clone().is_conj()
    assert turned.resolve_conj().data_ptr() != z.data_ptr()
    assert z.resolve_conj() is z
    assert turned.stride() == z.stride()
    z[0] = 9j
    assert turned.tolist() == [-9j, 3 + 1j, -2 - 0.5j, -4j]
    assert turned.imag.tolist() == [-9, 1, -0.5, -4]
    assert turned.imag.resolve_neg().dtype is tj.float64
    assert tj.tensor(2j).conj().imag.item() == -2
    for call, text in (
        (turned.numpy, "conjugate bit"),
        (turned.imag.numpy, "negative bit"),
        (lambda: tj.view_as_real(turned), "unresolved conjugated"),
        (lambda: turned.view(tj.float64), "conjugate view"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()
    with pytest.raises(BufferError, match="conjugate bit"):
        turned.__dlpack__()


def test_conjugates_from_outside_run_eagerly() -> None:
    compiled = tj.compile(lambda z: (z.is_conj(), z * 2))
    for _ in range(3):
        is_conj, doubled = compiled(numbers().conj())
        assert is_conj
        assert doubled.tolist() == [2 * z.conjugate() for z in map(complex, NUMBERS)]
    assert "a view of conjugates" in str(compiled.explain())
    for _ in range(2):
        is_conj, doubled = compiled(numbers())
        assert not is_conj
        assert doubled.tolist() == [2 * z for z in NUMBERS]


def test_results_that_are_conjugates_show_the_argument() -> None:
    compiled = tj.compile(lambda z: z.conj())
    for _ in range(3):
        z = numbers()
        turned = compiled(z)
        assert turned.is_conj()
        z.imag.fill_(5)
        assert turned.imag.tolist() == [-5.0] * 4


def test_optimizers_step_where_conjugates_are() -> None:
    memory = numbers()
    parameter = tj.nn.Parameter(memory.conj())
    parameter.grad = tj.ones(4, dtype=tj.complex128).conj()
    for _ in range(3):
        tj.optim.SGD([parameter], lr=1.0).step()
    assert memory.tolist() == [z - 3 for z in NUMBERS]


def test_constants_keep_their_imaginary_parts() -> None:
    def function(z):
        y = z * 1
        windows = y.unfold(0, 2, 1)
        y.fill_(0.5)
        turned = windows.conj()
        return y, y * y, turned * turned

    compiled = tj.compile(function)
    for _ in range(3):
        for found, expected in zip(compiled(numbers()), function(numbers()), strict=True):
            assert found.tolist() == expected.tolist()


def test_pairs_that_do_not_lie_like_numbers_are_refused() -> None:
    x = tj.arange(6.0)
    for pairs, text in (
        (x[1:5].view(2, 2), "storage_offset divisible by 2"),
        (x.as_strided((2, 2), (3, 1)), "stride divisible by 2"),
        (x.view(2, 3)[:, ::2].mT, "last dimension with stride 1"),
        (tj.ones(2, 3), "size 2"),
    ):
        with pytest.raises(RuntimeError, match=text):
            tj.view_as_complex(pairs)
    assert tj.view_as_complex(x.as_strided((1, 2), (3, 1))).shape == (1,)
    assert tj.view_as_complex(tj.ones(3, 2, dtype=tj.float16)).dtype is tj.complex64


def test_diagonals_of_matrices_are_the_last_dimensions() -> None:
    x = tj.arange(24).view(2, 3, 4)
    assert tj.linalg.diagonal(x).tolist() == [[0, 5, 10], [12, 17, 22]]
    assert tj.linalg.diagonal(x, offset=1, dim1=0, dim2=1).tolist() == tj.diagonal(x, 1).tolist()


def test_what_has_no_diagonal_or_is_no_vector_is_refused() -> None:
    with pytest.raises(RuntimeError, match="sizes don't match, 4 != 3"):
        tj.einsum("ii->i", tj.ones(3, 4))
    with pytest.raises(RuntimeError, match="Expect a 1D vector, but got shape"):
        tj.cartesian_prod(tj.ones(2, 3))


def test_copies_by_asarray_keep_their_history() -> None:
    x = tj.ones(2, requires_grad=True)
    tj.asarray(x, copy=True).sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_writes_to_what_is_expanded() -> None:
    leaf = tj.tensor([2.0, 3.0, 4.0], requires_grad=True)
    x = leaf * 1
    x.expand(2, 3)[1].mul_(7)
    (x * x).sum().backward()
    assert leaf.grad.tolist() == [2 * 49 * v for v in (2, 3, 4)]
    y = tj.zeros(3)
    y.expand(2, 3).fill_(5)
    assert y.tolist() == [5, 5, 5]
    with pytest.raises(RuntimeError, match="more than one element"):
        y.expand(2, 3).add_(tj.ones(2, 3))


def test_one_of_several_views_that_a_call_returns() -> None:
    def function(x):
        pieces = (x * 1).chunk(2)
        with tj.no_grad():
            pieces[0].mul_(2)
        return pieces

    compiled = tj.compile(function)
    for call in (function, compiled, compiled, compiled):
        piece = call(tj.ones(4, requires_grad=True))[1]
        with pytest.raises(RuntimeError, match="Output 1 of Split is a view"):
            piece.mul_(2)
        with pytest.raises(RuntimeError, match="Output 1 of Split is a view"):
            piece.grad_fn.name()


def test_strides_are_counted_in_elements_of_the_view() -> None:
    z = tj.tensor(NUMBERS)
    assert z.real.as_strided((2,), (4,), 1).tolist() == [2, 0.5]
    assert z[1::2].conj().as_strided((2,), (2,), 0).tolist() == [1 - 2j, -2 - 0.5j]
    assert z.conj().imag[1:].as_strided((3,), (2,), 1).tolist() == [-2, 1, -0.5]
    x = tj.arange(8.0)
    pairs = tj.view_as_complex(x.view(4, 2))
    assert pairs[1::2].as_strided((2,), (3,), 0).tolist() == [1j, 6 + 7j]
