"""What the page Compare puts beside the chosen map."""
