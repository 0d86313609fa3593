"""The web console under /console: pages for people over the same verbs, principals and permissions as REST.

Pages are rendered here, with scripts and styles from this package only. One module of `pages` serves each group of
pages.
"""

from vmemo_server.console.app import router
from vmemo_server.console.route import unexpected_error_page

__all__ = ["router", "unexpected_error_page"]
