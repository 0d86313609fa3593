"""From a query to what memory holds of it: search, fuse, weigh, pack."""
