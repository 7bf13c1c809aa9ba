"""``generate`` of the package transformers."""

from __future__ import annotations

import torch

from regard.bench.contest import Work
from regard.bench.matmul import DTYPES
from regard.bench.peers.marian import marian_model
from regard.bench.steps import learned
from regard.bench.writing import Writing
from regard.models.transformer import TransformerConfig


def hf_decoding(config: TransformerConfig, writing: Writing, precision: str) -> Work:
    """Without an end token, so that neither a check nor a mask is needed to go on to the limit."""
    torch.manual_seed(0)
    model = marian_model(config).to(writing.device, DTYPES[precision]).eval()
    model.generation_config.eos_token_id = None
    source = writing.source(config.n_source_vocab)
    seen = torch.ones_like(source)

    def run() -> float:
        with torch.inference_mode():
            written = model.generate(
                input_ids=source,
                attention_mask=seen,
                max_new_tokens=writing.n_new,
                num_beams=writing.beam,
                do_sample=False,
                use_cache=True,
            )
        rows = written.tolist()  # translations are wanted on the host
        return writing.checked([len(row) - 1 for row in rows])

    return Work(run, learned(model))
