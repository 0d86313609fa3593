"""Rules of the time grammar, and the stages in which they are applied."""
