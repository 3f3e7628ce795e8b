"""What every head does over a corpus: an atlas, and the texts behind its numbers."""
