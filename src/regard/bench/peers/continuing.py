"""``generate`` of the package transformers, for language models."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from regard.bench.contest import Work
from regard.bench.continuing import Continuing
from regard.bench.matmul import DTYPES
from regard.bench.steps import learned
from regard.interop import gpt2
from regard.interop.gpt2 import write_gpt2
from regard.interop.llama import write_llama
from regard.models.decoder import LanguageModel


def hf_writing(writing: Continuing, precision: str) -> Work:
    """The same weights; without an end token, so that no check is needed to go on to the limit."""
    model = hf_model(writing.model).to(writing.device, DTYPES[precision]).eval()
    model.generation_config.eos_token_id = None
    prompts = torch.tensor(writing.prompts(), device=writing.device)
    seen = torch.ones_like(prompts)

    def run() -> float:
        with torch.inference_mode():
            written = model.generate(
                input_ids=prompts,
                attention_mask=seen,
                max_new_tokens=writing.n_new,
                do_sample=False,
                use_cache=True,
            )
        rows = written.tolist()  # texts are wanted on the host
        return writing.checked([len(row) - writing.n_prompt for row in rows])

    return Work(run, learned(model))


def hf_model(model: LanguageModel) -> Any:
    """Our model as theirs: a GPT-2 or a LLaMA."""
    from transformers import AutoModelForCausalLM, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    weights = {name: part.detach().cpu() for name, part in model.named_parameters()}
    write = write_llama if gpt2.refusal(model.config) else write_gpt2
    with TemporaryDirectory(prefix="regard-bench-") as folder:
        write(model.config, weights, Path(folder))
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
