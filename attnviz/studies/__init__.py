"""Studies that run a model many times: heads ablated one by one, activation patching, gradients, a corpus of texts."""
