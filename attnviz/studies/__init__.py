"""Studies that run a model many times: ablation of single heads, activation patching, gradients, many texts."""
