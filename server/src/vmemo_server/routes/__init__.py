"""REST routes, one module per group of verbs."""

from vmemo.models import Profile
from vmemo.models.requests import (
    AddWebhookRequest,
    BackgroundRequest,
    ContextRequest,
    CreateKeyRequest,
    FactJudgement,
    FactText,
    ForgetContentRequest,
    MergeEntitiesRequest,
    PinState,
    ProcessRequest,
    RecallRequest,
    ReflectRequest,
    RetainRequest,
    RetrieveRequest,
)

BODIES = (
    *(RetainRequest, ProcessRequest, RecallRequest, RetrieveRequest, ReflectRequest, ForgetContentRequest),
    *(ContextRequest, Profile, BackgroundRequest, MergeEntitiesRequest, FactText, PinState, CreateKeyRequest),
    *(AddWebhookRequest, FactJudgement),
)
# The models defer building their validators to keep `import vmemo` fast. FastAPI needs them when a route is defined; if
# it builds them on first use, pydantic warns of the alias that FastAPI gives to every body.
for body in BODIES:
    body.model_config["defer_build"] = False
    body.model_rebuild(force=True)
