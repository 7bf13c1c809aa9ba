"""The convolutional network: grids of any picture, and gradients however pixels lie in memory."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.layers.convolutions import ConvBlock, ConvNet, ConvStem


@pytest.mark.parametrize("stride", [2, 4, 8])
@pytest.mark.parametrize(("height", "width"), [(64, 64), (17, 41), (1, 1)])
@pytest.mark.parametrize("kind", [ConvNet, ConvStem])
def test_a_vector_for_a_patch_rounded_up(kind, stride, height, width):
    net = kind(100, channels=3, stride=stride)
    found = net(torch.randn(2, 3, height, width))
    assert found.shape == (2, 100, -(-height // stride), -(-width // stride))


@pytest.mark.parametrize("stride", [2, 4, 8, 16])
@pytest.mark.parametrize("kind", [ConvNet, ConvStem])
def test_a_vector_looks_at_the_middle_of_its_patch(kind, stride):
    net = kind(32, channels=1, stride=stride)
    for parent in [*net.modules()]:
        for name, child in parent.named_children():
            if isinstance(child, nn.GroupNorm | nn.BatchNorm2d):  # these look at the whole picture
                setattr(parent, name, nn.Identity())
    for weight in net.parameters():
        nn.init.constant_(weight, 0.1)
    pixels = torch.ones(1, 1, 20 * stride, 20 * stride, requires_grad=True)
    net(pixels)[0, 0, 9, 10].backward()
    seen = pixels.grad[0, 0] / pixels.grad.sum()
    at = torch.arange(20 * stride)
    row, column = (seen.sum(dim=1) * at).sum(), (seen.sum(dim=0) * at).sum()
    assert row == pytest.approx(9.5 * stride - 0.5, abs=0.51)
    assert column == pytest.approx(10.5 * stride - 0.5, abs=0.51)


@pytest.mark.parametrize(("stride", "size"), [(1, 6), (2, 6), (2, 7)])
def test_the_connection_around_is_a_strided_convolution(stride, size):
    block = ConvBlock(3, 16, stride=stride)
    x = torch.randn(2, 3, size, size)
    y = block.outer_norm(block.outer(F.relu(block.inner_norm(block.inner(x)))))
    beside = F.conv2d(x, block.beside.weight, block.beside.bias, stride=stride)
    torch.testing.assert_close(block(x), F.relu(y + beside))


def test_a_picture_stands_for_itself_in_a_stem_that_has_learned():
    torch.manual_seed(0)
    net, x = ConvStem(16, channels=3, stride=4), torch.randn(3, 3, 8, 8)
    assert not torch.allclose(net(x)[:1], net(x[:1]))  # in training its batch counts
    net.eval()
    torch.testing.assert_close(net(x)[:1], net(x[:1]))


@pytest.mark.parametrize("d_model", [32, 64, 96])
def test_gradients_do_not_depend_on_which_axis_lies_last(d_model):
    """Pixels come as (B, H, W, C); a strided 1 × 1 convolution of these breaks oneDNN's memory."""
    net, x = ConvNet(d_model, channels=3, stride=8), torch.randn(16, 64, 64, 3).permute(0, 3, 1, 2)
    grads = []
    for pixels in (x, x.contiguous()):
        net.zero_grad()
        net(pixels).square().mean().backward()
        grads.append([p.grad.clone() for p in net.parameters()])
    torch.testing.assert_close(grads[0], grads[1], atol=1e-5, rtol=1e-3)
