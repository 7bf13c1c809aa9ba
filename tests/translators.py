"""Small translators of others, and what they have in common with ours."""

import torch

from regard.models.transformer import Transformer


def loaded(imported):
    """Our model with imported weights, each of which must be wanted and there."""
    model = Transformer(imported.config).eval()
    wanted = dict(model.named_parameters())
    assert wanted.keys() == imported.weights.keys()
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(imported.weights[name])
    return model


def shaken(model, share=0.3):
    """No weight is zero or one; sinusoids stay what they are."""
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(share * torch.randn_like(parameter))
    return model


def our_ids(ids, numbering):
    """Their ids as ours."""
    ours = {theirs: number for number, theirs in enumerate(numbering.rows) if theirs is not None}
    return torch.tensor([[ours[number] for number in row] for row in ids.tolist()])
