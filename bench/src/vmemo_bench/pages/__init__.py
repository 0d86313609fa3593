"""HTML pages of reports: tables, plots and the list of answered questions."""
