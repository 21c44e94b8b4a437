"""Find the targets that a change affects: both revisions are loaded and analysed, and compared without building."""
