"""What a sweep over all families says at its end."""

from collections import defaultdict


def pytest_terminal_summary(terminalreporter):
    """How many classes had which outcome, and of which families; each sentence of a refusal."""
    outcomes = defaultdict(list)
    for report in terminalreporter.stats.get("passed", ()):
        for kind, *rest in (value for key, value in report.user_properties if key == "outcome"):
            outcomes[kind].append(rest)
    for kind, found in sorted(outcomes.items()):
        terminalreporter.section(f"{kind}: {len(found)}")
        terminalreporter.write_line(", ".join(sorted({family for family, _, _ in found})))
        if kind == "refused":
            for _, name, told in found:
                terminalreporter.write_line(f"  {name}: {told}")
