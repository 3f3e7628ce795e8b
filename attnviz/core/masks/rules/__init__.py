"""Every rule in a file of its own: ``block_diffusion.py`` holds `BlockDiffusion`. What lies here is found."""

import pkgutil
from importlib import import_module

NAMES = {
    "".join(part.capitalize() for part in module.name.split("_")): module.name
    for module in pkgutil.iter_modules(__path__)
}
"""The module of each class."""

globals().update({name: getattr(import_module(f"{__name__}.{module}"), name) for name, module in NAMES.items()})

__all__ = [*NAMES]
