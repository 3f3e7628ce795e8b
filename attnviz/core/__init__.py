"""The basis of attnviz: attention, masks, edits, tap and record. It imports torch and no other part of attnviz."""
