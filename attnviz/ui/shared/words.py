"""What more than one page says, and what stands around every page."""

# Links

UNREADABLE = "'{text}' cannot be read; it should look like {like}."

# Buttons and names

BACK, NEXT, QUERY, HANDOUT = "Back", "Next", "Query", "Handout"
