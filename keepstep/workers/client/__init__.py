"""The client for backend code: start a case, signal it, look at it, steer it. Needs PostgreSQL; Redis may be away."""

from keepstep.workers.client.looking import Looking
from keepstep.workers.client.signalling import Signalling
from keepstep.workers.client.starting import Started, Starting
from keepstep.workers.client.steering_many import SteeringMany
from keepstep.workers.client.storing import Storing


class Client(Starting, Signalling, Looking, SteeringMany, Storing):
    """The door for backend code; one for the whole process, safe across threads and forks, closable.

    database_url, broker_url: default to KEEPSTEP_DATABASE_URL and KEEPSTEP_BROKER_URL. workflows: modules or
    Workflow objects whose cases may be started by name (default: KEEPSTEP_WORKFLOWS).
    """


__all__ = ["Client", "Started"]
