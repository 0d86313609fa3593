"""Authentication and authorization shared by every interface.

`AccessControl` turns the secret of a request into a `Principal`, applies the rate limit and writes the audit log. A
`Principal` holds the permission, banks and limits of one caller.
"""

from vmemo_server.auth.access import AccessControl
from vmemo_server.auth.limits import Limits
from vmemo_server.auth.principal import Principal

__all__ = ["AccessControl", "Limits", "Principal"]
