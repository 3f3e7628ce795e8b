"""Two tiny models with weights by a rule, which TransformerLens read too; its numbers stand in lens.json.

Of each family: `ids` of A and B (`TEXTS`, one token differs). Lists of heads go by layer, head. All is read after the
last token.

- `direct`: contributions on A to the logit of `token`, final norm's scale fixed and its weight applied; `heads`
  without b_O, `b_O` per layer, `ln_final.b` through W_U; there is no b_U, and Llama has no biases. They sum to `logit`.
- `patching`: the logit of t_B minus that of t_A on `A`, on `B`, and on A with activations of B: `z` (a head's output),
  `qk`, `v` at all positions, and `resid_pre` of each layer at `changed_position` alone. t_B is B's best id other than
  t_A. In Llama `qk` patches one head's query and the key of its pair, `v` the value of its pair: both heads change.
- `composition`: rows are heads of layer 0, columns heads of layer 1.
- `copying`: real part of the sum of eigenvalues of W_E W_V W_O W_U over the sum of their absolute values.
"""

import math
import zlib

import torch
import transformers

VOCABULARY = 101
TEXTS = ("A cat s", "A bat s")


def build(family: str) -> transformers.PreTrainedModel:
    """A model of 'gpt2' or 'llama': each weight is a sine of its squared index, at a rate from its name."""
    sizes = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "attn_implementation": "eager"}
    if family == "gpt2":
        config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=32, **sizes)
        model = transformers.GPT2LMHeadModel(config)
    else:
        sizes |= {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
        config = transformers.LlamaConfig(intermediate_size=64, max_position_embeddings=32, **sizes)
        model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            rate = 1 + zlib.crc32(name.encode()) / 2**32
            index = torch.arange(1, parameter.numel() + 1, dtype=torch.float64)
            wave = torch.sin(rate * index.square()).view(parameter.shape)
            if parameter.dim() == 2:
                value = 2 * wave / math.sqrt(32)
            elif name.endswith("bias"):
                value = 0.1 * wave
            else:
                value = 1 + 0.2 * wave
            parameter.copy_(value)
    return model.eval().requires_grad_(False)
