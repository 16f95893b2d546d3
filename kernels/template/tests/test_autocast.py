"""Under torch.autocast, layers return bfloat16 or float16. Our operators take that, and compute in float32."""

import pytest
import torch

import my_kernels

LOW = [torch.bfloat16, torch.float16]
OPERATORS = {"vector_add": 2, "square": 1, "matmul": 2}


def inputs(count, device, dtype=torch.float32):
    return [torch.randn(17, 17, device=device).to(dtype).requires_grad_() for _ in range(count)]


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("name, count", OPERATORS.items())
def test_low_precision_is_computed_in_float32(device, name, count, low):
    operator, tensors = getattr(my_kernels, name), inputs(count, device, low)
    tensors[-1] = tensors[-1].detach().float().requires_grad_()  # a weight, for instance, stays float32
    with torch.autocast(device.type, dtype=low):
        out = operator(*tensors)
    expected = operator(*[x.float() for x in tensors])
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, expected, rtol=0, atol=0)
    weight = torch.randn_like(out)
    ours = torch.autograd.grad(out, tensors, weight)
    assert [x.dtype for x in ours] == [x.dtype for x in tensors]
    torch.testing.assert_close(ours, torch.autograd.grad(expected, tensors, weight), rtol=0, atol=0)


@pytest.mark.parametrize("inside", [True, False], ids=["backward inside", "backward outside"])
@pytest.mark.parametrize("low", LOW)
def test_a_network_with_layers_of_pytorch(device, low, inside):
    layer = torch.nn.Linear(17, 17, device=device)
    x, n = inputs(2, device)
    with torch.autocast(device.type, dtype=low):
        hidden = layer(x)
        loss = my_kernels.square(my_kernels.vector_add(my_kernels.matmul(hidden, n), hidden)).mean()
        if inside:
            loss.backward()
    if not inside:
        loss.backward()
    assert hidden.dtype == low and loss.dtype == torch.float32
    exact = ((layer(x) @ n + layer(x)) ** 2).mean()
    torch.testing.assert_close(loss, exact, rtol=0.05, atol=0)
    expected = torch.autograd.grad(exact, (x, n, layer.weight))
    torch.testing.assert_close((x.grad, n.grad, layer.weight.grad), expected, rtol=0.1, atol=0.05)


def test_float64_stays(device):
    m, n = inputs(2, device, torch.float64)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        assert my_kernels.matmul(m, n).dtype == torch.float64


def test_compiles_in_one_graph(kernel_device):
    def function(m, n):
        return my_kernels.matmul(torch.mm(m, n), n).sum()

    tensors = inputs(2, kernel_device)
    with torch.autocast(kernel_device.type, dtype=torch.bfloat16):
        expected = function(*tensors)
        loss = torch.compile(function, fullgraph=True, backend="aot_eager")(*tensors)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(torch.autograd.grad(loss, tensors), torch.autograd.grad(expected, tensors))


@pytest.mark.parametrize("name, count", OPERATORS.items())
def test_bfloat16_elsewhere_is_refused(device, name, count):
    with pytest.raises(TypeError, match="but it is bfloat16: convert it with"):
        getattr(my_kernels, name)(*inputs(count, device, torch.bfloat16))
