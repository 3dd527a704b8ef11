"""Writes a Llama of eight narrow layers and a tokenizer of one token a byte, without any download.

    python tiny_model.py FOLDER

Some milliseconds a token on a CPU: slow enough for a client to go away in the middle of an answer.
There are no weights: vLLM makes random ones (`--load-format dummy`). A character of a prompt is a token, so
a client can count prompt tokens by itself. Runs inside vLLM's own environment.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIAL = ["<s>", "</s>", "<unk>", "<pad>"]
CONTEXT = 2048


def tokenizer() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *alphabet])}
    bytewise = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=bytewise,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        model_max_length=CONTEXT,
    )


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,  # the CPU's attention kernel knows only some
    "vocab_size": 512,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 3,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1))
    ends = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 3}
    (folder / "generation_config.json").write_text(json.dumps(ends))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
