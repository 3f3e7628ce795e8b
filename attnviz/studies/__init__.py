"""Studies that run a model many times: effects of single heads, gradients, many texts."""
