"""Commands that this distribution adds to `vmemo`."""
