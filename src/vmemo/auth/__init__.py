"""Authentication and authorization shared by every interface."""
