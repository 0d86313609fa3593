"""The routes of the REST door, a module for each kind of resource."""
