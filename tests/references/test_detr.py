"""Our DETR against that of the package transformers: the same cells, the same weights."""

import pytest
import torch

from regard.models.detection import Cells, DetectionConfig, Detections, Detector
from regard.training.set_prediction import NO_OBJECT, detection_losses, match

transformers = pytest.importorskip("transformers", reason="the package transformers is not there")
losses_of_others = pytest.importorskip("transformers.loss.loss_for_object_detection")

D, HEADS, LAYERS, FF, QUERIES, LABELS = 24, 3, 2, 40, 5, 4
ATTENTION = {"q_proj": "to_q", "k_proj": "to_k", "v_proj": "to_v", "o_proj": "to_out"}
LAYER = {
    "self_attn_layer_norm": "around_self.norm",
    "encoder_attn_layer_norm": "around_cross.norm",
    "final_layer_norm": "around_feed_forward.norm",
    "mlp.fc1": "feed_forward.inner",
    "mlp.fc2": "feed_forward.outer",
    **{f"self_attn.{a}": f"self_attention.{b}" for a, b in ATTENTION.items()},
    **{f"encoder_attn.{a}": f"cross_attention.{b}" for a, b in ATTENTION.items()},
}
ENDS = {
    "model.decoder.layernorm": "decoder.norm",
    "class_labels_classifier": "decoder.to_classes",
    **{f"bbox_predictor.layers.{i}": f"decoder.to_boxes.{2 * i}" for i in range(3)},
}


@pytest.fixture
def theirs():
    torch.manual_seed(0)
    backbone = transformers.ResNetConfig(
        embedding_size=6, hidden_sizes=[8, 10, 12, 14], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage4"],
    )  # fmt: skip
    config = transformers.DetrConfig(
        backbone_config=backbone, d_model=D, num_queries=QUERIES, num_labels=LABELS,
        encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=FF, decoder_ffn_dim=FF, dropout=0.0,
    )  # fmt: skip
    model = transformers.DetrForObjectDetection(config).eval()
    for parameter in model.parameters():  # biases and norms of a fresh model are 0 and 1
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def ours_of(theirs):
    """Our model with their weights, but for what makes pixels to cells."""
    config = DetectionConfig(
        d_model=D, n_heads=HEADS, n_layers=LAYERS, d_ff=FF, dropout=0.0, n_queries=QUERIES,
        n_labels=LABELS, queries="learned", classes="softmax",
    )  # fmt: skip
    model, weights = Detector(config).eval(), theirs.state_dict()
    named = {**ENDS}
    for stack in ("encoder", "decoder"):
        for i in range(LAYERS):
            named |= {
                f"model.{stack}.layers.{i}.{a}": f"{stack}.layers.{i}.{b}" for a, b in LAYER.items()
            }
    found = {"decoder.queries": weights["model.query_position_embeddings.weight"]}
    for a, b in named.items():
        for part in ("weight", "bias"):
            if f"{a}.{part}" in weights:
                found[f"{b}.{part}"] = weights[f"{a}.{part}"]
    missing, unexpected = model.load_state_dict(found, strict=False)
    assert unexpected == []
    assert all(name.startswith("encoder.cells.") for name in missing)
    return model


@torch.no_grad()
def test_the_same_cells_and_weights_give_the_same_classes_and_boxes(theirs):
    pixels = torch.randn(2, 3, 70, 100)
    projected = []
    theirs.model.input_projection.register_forward_hook(lambda _m, _i, out: projected.append(out))
    expected = theirs(pixels)
    (cells,) = projected  # (2, D, 3, 4)
    rows, columns = cells.shape[-2:]
    assert (rows, columns) == (3, 4)
    ours = ours_of(theirs)

    class Projected(torch.nn.Module):
        def forward(self, _pixels):
            return cells.flatten(2).mT

        def grid_of(self, _pixels):
            return rows, columns

    ours.encoder.cells = Projected()
    found = ours(pixels)
    torch.testing.assert_close(found.logits[-1], expected.logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.boxes[-1], expected.pred_boxes, atol=1e-5, rtol=1e-5)
    states = ours.encoder(pixels)
    assert isinstance(states, Cells)
    torch.testing.assert_close(
        states.states, expected.encoder_last_hidden_state, atol=1e-5, rtol=1e-5
    )


def example(seed):
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, 3, 6, LABELS + 1, generator=rng)
    size = 0.1 + 0.3 * torch.rand(3, 10, 2, generator=rng)
    middle = size / 2 + torch.rand(3, 10, 2, generator=rng) * (1 - size)
    boxes = torch.cat((middle, size), dim=-1)
    labels = torch.randint(0, LABELS, (3, 4), generator=rng)
    labels[1, 2:] = NO_OBJECT
    return logits, boxes[None, :, :6], labels, boxes[:, 6:]


@pytest.mark.parametrize("seed", range(5))
def test_matching_and_losses_are_theirs(seed):
    logits, said, labels, boxes = example(seed)
    targets = [
        {"class_labels": one[one >= 0], "boxes": box[one >= 0]}
        for one, box in zip(labels, boxes, strict=True)
    ]
    outputs = {"logits": logits[0], "pred_boxes": said[0]}
    matcher = losses_of_others.HungarianMatcher(class_cost=1, bbox_cost=5, giou_cost=2)
    matching = match(logits[0], said[0], labels, boxes, classes="softmax")
    for row, (queries, objects) in enumerate(matcher(outputs, targets)):
        mine = matching.row == row
        pairs = zip(matching.query[mine].tolist(), matching.object[mine].tolist(), strict=True)
        assert {*pairs} == {*zip(queries.tolist(), objects.tolist(), strict=True)}
    criterion = losses_of_others.ImageLoss(
        matcher=matcher, num_classes=LABELS, eos_coef=0.1, losses=["labels", "boxes"]
    )
    expected = criterion(outputs, targets)
    found = detection_losses(Detections(logits, said), labels, boxes, classes="softmax").sums
    n = int((labels != NO_OBJECT).sum())
    weights = n + 0.1 * (3 * 6 - n)  # theirs is a mean over weights, ours a sum
    torch.testing.assert_close(found["classes"] / weights, expected["loss_ce"])
    torch.testing.assert_close(found["l1"] / 5 / n, expected["loss_bbox"])
    torch.testing.assert_close(found["giou"] / 2 / n, expected["loss_giou"])
