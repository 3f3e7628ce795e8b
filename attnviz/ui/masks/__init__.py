"""The mask lab: a mask composed rule by rule, explained, converted and tested."""
