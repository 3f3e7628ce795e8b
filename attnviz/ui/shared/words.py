"""What more than one page says, and what stands around every page."""

# Links

UNREADABLE = "'{text}' cannot be read; it should look like {like}."

# Buttons and names

BACK, NEXT, QUERY, HANDOUT = "Back", "Next", "Query", "Handout"
ACTIVE_HEADS = "Active heads"
HEAD_AT = "{site} head {head}"

# Steps of a training

STEP_IS, STEP_SHORT = "Training step: {step}", "Step {step:,}"
KEPT, FINAL, UNTRAINED = "{step:,}", "{step:,} (final)", "{step:,} (untrained)"
FIRST_KEPT, FROM_UNTRAINED = "{first:,}: first kept · {last:,}: final", "{first:,}: untrained · {last:,}: final"
AS_TRAINED = "{why} Here it is as trained."
