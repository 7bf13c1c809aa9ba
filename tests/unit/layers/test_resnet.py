"""The ResNet of detectors: grids, blocks, and norms that nothing changes any more."""

import pytest
import torch
import torch.nn.functional as F

from regard.checkpoints.run_folder import model_tensors
from regard.layers.resnet import FrozenBatchNorm, ResidualBlock, ResNet, resnet_stride

SIZES = {"depths": (1, 2, 1), "widths": (8, 9, 12), "stem": 5}


@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
@pytest.mark.parametrize(("height", "width"), [(64, 64), (17, 41), (1, 1)])
def test_a_vector_for_a_square_of_pixels_rounded_up(kind, height, width):
    found = ResNet(**SIZES, kind=kind)(torch.randn(2, 3, height, width))
    stride = resnet_stride(3)
    assert stride == 16
    assert found.shape == (2, 12, -(-height // stride), -(-width // stride))


def test_a_frozen_norm_is_a_batch_norm_in_evaluation_also_while_training():
    norm, theirs = FrozenBatchNorm(4).train(), torch.nn.BatchNorm2d(4).eval()
    for one in model_tensors(norm).values():
        one.uniform_(0.5, 2.0)
    theirs.load_state_dict({**norm.state_dict(), "num_batches_tracked": torch.tensor(0)})
    x = torch.randn(3, 4, 5, 6)
    torch.testing.assert_close(norm(x), theirs(x))
    assert list(norm.parameters()) == []
    assert set(model_tensors(norm)) == {"weight", "bias", "running_mean", "running_var"}


@pytest.mark.parametrize(("stride", "size"), [(1, 6), (2, 6), (2, 7)])
def test_a_bottleneck_halves_in_its_middle_and_beside_it(stride, size):
    block = ResidualBlock(6, 8, stride=stride, kind="bottleneck")
    x = torch.randn(2, 6, size, size)
    first, middle, last = (one.conv.weight for one in block.layers)
    assert first.shape == (2, 6, 1, 1)
    shrink = (1 + 1e-5) ** -0.5  # what a fresh norm multiplies by
    y = F.relu(shrink * F.conv2d(x, first))
    y = F.relu(shrink * F.conv2d(y, middle, stride=stride, padding=1))
    beside = shrink * F.conv2d(x, block.beside.conv.weight, stride=stride)
    torch.testing.assert_close(block(x), F.relu(shrink * F.conv2d(y, last) + beside))


def test_a_block_that_changes_no_shape_has_nothing_beside_it():
    block = ResidualBlock(6, 6, stride=1, kind="basic")
    assert block.beside is None
    for layer in block.layers:
        torch.nn.init.zeros_(layer.conv.weight)
    x = torch.randn(2, 6, 5, 5)
    torch.testing.assert_close(block(x), x.relu())


@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
def test_a_deep_fresh_network_neither_grows_nor_fades(kind):
    torch.manual_seed(0)
    net = ResNet((3, 4, 6, 3), (32, 64, 96, 128), stem=32, kind=kind)
    found = net(torch.randn(2, 3, 96, 96))
    assert 0.1 < found.std() < 10


def test_gradients_do_not_depend_on_which_axis_lies_last():
    net = ResNet((1, 1), (16, 16), stem=16, kind="bottleneck")
    x, grads = torch.randn(4, 32, 32, 3).permute(0, 3, 1, 2), []
    for pixels in (x, x.contiguous()):
        net.zero_grad()
        net(pixels).square().mean().backward()
        grads.append([p.grad.clone() for p in net.parameters()])
    torch.testing.assert_close(grads[0], grads[1], atol=1e-5, rtol=1e-3)
