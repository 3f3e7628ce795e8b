"""The ground floor: attention, masks, edits, the tap and the record. It imports torch and nothing of ours above it."""
