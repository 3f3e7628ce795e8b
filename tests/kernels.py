"""Run tests with every kernel that this CPU supports, on one thread and on two: `make kernels`.

PyTorch has kernels for CPUs without AVX2, with it and with AVX-512, and each rounds in its own order; its matrix
products are MKL's, which are told by another name. What holds with all of them holds on other machines too.
"""

import os
import subprocess
import sys

import torch

WAYS = {"default": "COMPATIBLE", "avx2": "AVX2", "avx512": "AVX512"}
"""Kernels of PyTorch, with the MKL setting for the same instructions."""
NUMBERS = "not browser and not sweep"


def main(*arguments: str) -> None:
    best = torch.backends.cpu.get_cpu_capability().lower()
    failed = []
    ways = [*WAYS]
    for way in ways[: ways.index(best) + 1] if best in ways else ways[:1]:
        for threads in ("1", "2"):
            name = f"{way}, {threads} thread{'s' * (threads == '2')}"
            print(name, flush=True)
            setting = {"ATEN_CPU_CAPABILITY": way, "MKL_CBWR": WAYS[way], "ATTNVIZ_TEST_THREADS": threads}
            command = [sys.executable, "-m", "pytest", "-q", "-m", NUMBERS, "--ignore=tests/ui", *arguments]
            if subprocess.run(command, env=os.environ | setting).returncode:
                failed.append(name)
    if failed:
        sys.exit(f"Failed with {'; '.join(failed)}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
