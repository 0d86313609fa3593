"""REST routes, one module per group of verbs."""
