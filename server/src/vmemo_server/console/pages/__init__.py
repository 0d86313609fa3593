"""The pages of the console, one module per group."""
