"""Importers: exports of other memory products and chat applications, as messages and facts."""
