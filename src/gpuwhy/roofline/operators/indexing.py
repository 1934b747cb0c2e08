"""Operators that pick, place or join elements: what is picked is read and written once, and the indices are read."""

from __future__ import annotations

from gpuwhy.roofline.arguments import Arguments, Tensor
from gpuwhy.roofline.operators.base import Formula, Work, broadcast, product


def _picked(count: float, item: int, *indices: Tensor | None) -> Work:
    """`count` elements of `item` bytes are read and written."""
    read = sum(index.bytes for index in indices if index is not None)
    return Work(0.0, float(count * item + read), float(count * item))


def _gather(of: Arguments, _: int | None) -> Work | None:
    """`gather(x, dim, index)`: an element for each index."""
    x, index = of.tensor(0), of.tensor(2)
    return None if x is None or index is None else _picked(index.count, x.item, index)


def _scatter(of: Arguments, _: int | None) -> Work | None:
    """`scatter_(x, dim, index, src)`: an element for each index; from a number if there is no src."""
    x, index = of.tensor(0), of.tensor(2)
    if x is None or index is None:
        return None
    return Work(0.0, float(index.bytes + (index.count * x.item if of.tensor(3) else 0)), float(index.count * x.item))


def _scatter_add(of: Arguments, _: int | None) -> Work | None:
    """Each source element is read, and the sum that it goes to is read and written."""
    x, index = of.tensor(0), of.tensor(2)
    if x is None or index is None:
        return None
    return Work(0.0, float(index.bytes + 2 * index.count * x.item), float(index.count * x.item))


def _index_add(of: Arguments, _: int | None) -> Work | None:
    """`index_add_(x, dim, index, source)`: each row of the source is added to one of x."""
    index, source = of.tensor(2), of.tensor(3)
    if of.tensor(0) is None or index is None or source is None:
        return None
    size = source.count * source.item
    return Work(0.0, float(index.bytes + source.bytes + size), float(size))


def _index_copy(of: Arguments, _: int | None) -> Work | None:
    """`index_copy_(x, dim, index, source)`: each row of the source replaces one of x."""
    index, source = of.tensor(2), of.tensor(3)
    if of.tensor(0) is None or index is None or source is None:
        return None
    return Work(0.0, float(index.bytes + source.bytes), float(source.count * source.item))


def _could_be_masks(x: Tensor, indices: list[Tensor]) -> bool:
    """Of a list no types are recorded: what has the sizes of x may be a mask, whose number of hits is not known."""
    return any(index.dims == x.dims[place : place + len(index.dims)] for place, index in enumerate(indices))


def _embedding(of: Arguments, _: int | None) -> Work | None:
    """`embedding(weight, indices)`: a row an index."""
    weight, index = of.tensor(0), of.tensor(1)
    if weight is None or index is None or len(weight.dims) != 2:
        return None
    return _picked(index.count * weight.dims[1], weight.item, index)


def _index_select(of: Arguments, _: int | None) -> Work | None:
    """`index_select(x, dim, index)`."""
    x, dimension, index = of.tensor(0), of.value(1), of.tensor(2)
    if x is None or index is None or not x.count:
        return None
    if not isinstance(dimension, int) or not -len(x.dims) <= dimension < len(x.dims):
        return None
    return _picked(x.count // x.dims[dimension] * index.count, x.item, index)


def _index(of: Arguments, _: int | None) -> Work | None:
    """`index(x, [indices…])`."""
    chosen = _chosen(of)
    if chosen is None:
        return None
    x, indices, count = chosen
    return _picked(count, x.item, *(Tensor(index.dims, "long int", index.strides) for index in indices))


def _index_put(of: Arguments, _: int | None) -> Work | None:
    """`index_put_(x, [indices…], values, accumulate)`: as many elements as the indices choose."""
    chosen, values = _chosen(of), of.tensor(2)
    if chosen is None:
        return None
    x, indices, count = chosen
    read = sum(8 * index.stored for index in indices) + (values.bytes if values is not None else 0)
    return Work(0.0, float(read + (count * x.item if of.flag(3) else 0)), float(count * x.item))


def _chosen(of: Arguments) -> tuple[Tensor, list[Tensor], int] | None:
    """x, the integer indices for its first dimensions, and how many elements they choose.

    None with masks: how many elements they choose is not recorded.
    """
    x, indices = of.tensor(0), of.several(1)
    if x is None or indices is None or len(indices) > len(x.dims) or any(not index.dims for index in indices):
        return None
    shape = broadcast(indices)
    if shape is None or _could_be_masks(x, indices):
        return None
    return x, indices, product(shape) * product(x.dims[len(indices) :])


def _embedding_backward(of: Arguments, _: int | None) -> Work | None:
    """`embedding_dense_backward(grad, indices, …)`: each row of the gradient goes to one of the weight's."""
    grad, index = of.tensor(0), of.tensor(1)
    return None if grad is None or index is None else _picked(grad.count, grad.item, index)


def _embedding_bag(of: Arguments, _: int | None) -> Work | None:
    """`_embedding_bag(weight, indices, offsets, scale, mode, sparse, factors, last, …)`: a row an index is read, one a
    bag written. The last offset may be the end of the last bag.
    """
    weight, index, offsets = of.tensor(0), of.tensor(1), of.tensor(2)
    if weight is None or index is None or offsets is None or len(weight.dims) != 2:
        return None
    row, factors = weight.dims[1] * weight.item, of.tensor(6)
    small = index.bytes + offsets.bytes + (factors.bytes if factors is not None else 0)
    bags = offsets.count - (1 if of.flag(7) else 0)
    return Work(0.0, float(index.count * row + small), float(bags * row))


def _cat(of: Arguments, item: int | None) -> Work | None:
    """`cat([tensors…], dim)`: lists do not tell their type, the kernel's name does."""
    parts = of.several(0)
    if parts is None or item is None:
        return None
    return _picked(sum(part.count for part in parts), item)


def _whole(of: Arguments, _: int | None) -> Work | None:
    """The tensor is read and written."""
    x = of.tensor(0)
    return None if x is None else Work(0.0, float(x.bytes), float(x.count * x.item))


def _repeated(of: Arguments, _: int | None) -> Work | None:
    """`repeat(x, times)`."""
    x, times = of.tensor(0), of.numbers(1)
    if x is None or times is None:
        return None
    return Work(0.0, float(x.bytes), float(x.count * x.item * product(times)))


FORMULAS: dict[str, Formula] = {
    "gather": _gather,
    "scatter": _scatter,
    "scatter_": _scatter,
    "scatter_add": _scatter_add,
    "scatter_add_": _scatter_add,
    "scatter_reduce_": _scatter_add,
    "embedding": _embedding,
    "embedding_dense_backward": _embedding_backward,
    "_embedding_bag": _embedding_bag,
    "_embedding_bag_forward_only": _embedding_bag,
    "index_add_": _index_add,
    "index_copy_": _index_copy,
    "index_select": _index_select,
    "index": _index,
    "_unsafe_index": _index,
    "index_put_": _index_put,
    "_index_put_impl_": _index_put,
    "_unsafe_index_put": _index_put,
    "cat": _cat,
    "stack": _cat,
    "_unfold_copy": _whole,
    "repeat": _repeated,
}
