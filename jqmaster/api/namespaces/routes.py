"""Routes of namespaces and stores."""

from dataclasses import replace
from typing import Any, Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.namespaces import handlers, move_schemas, schemas
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
# Errors of routes that read the namespace's entry in the registry. The entry may be damaged.
_ENTRY: Final = (500, 503)
_CONFIRM: Final[dict[str, dict[str, Any]]] = {
    "confirm": {
        "schema": {"type": "string"},
        "required": True,
        "description": "The name of the namespace, repeated to confirm the deletion.",
    },
    "force": {
        "schema": {"type": "boolean", "default": False},
        "description": (
            "true: delete the namespace even if it has unfinished jobs, its store does not "
            "answer, or its entry in the registry cannot be read."
        ),
    },
}
_FORCE: Final[dict[str, dict[str, Any]]] = {
    "force": {
        "schema": {"type": "boolean", "default": False},
        "description": "true: end the move even if its record cannot be read or is lost.",
    },
}
_PUT_TEXT: Final = (
    "Creates the namespace and opens it, or changes its title. Masters apply the change within a second. A "
    "namespace with a `tag` takes over the data under this tag, for example the data of an installation "
    "with this value of the setting `shard`. Stop the masters of that installation first. Without "
    "preconditions, the last writer wins."
)
_DELETE_TEXT: Final = (
    "Removes a closed namespace from the registry. Its data stay in their store. A later namespace with the "
    "same `store` and `tag` takes the data over. Refused with 409 while the namespace is open. Also refused while it "
    "has unfinished jobs, except with `force`. `default` cannot be deleted."
)
_CLOSE_TEXT: Final = (
    "Masters stop serving the namespace within a second. None of its jobs starts, and calls below its path "
    "get 503, so clients and workers try again. Its data stay. Drain its workers before this call if "
    "running jobs should end first."
)
_MOVE_TEXT: Final = (
    "Copies the data to another configured store. Masters do not serve the namespace during the move. Its "
    "calls get 503 `namespace_moving` with `Retry-After`, so clients and workers repeat them. `dry_run` "
    "measures the data and estimates the duration of the stop. A `GET` of the namespace shows the progress "
    "of the move. If the move fails, masters open the namespace again in its previous store."
)
_ABORT_TEXT: Final = (
    "Opens the namespace again in its previous store, within seconds. A move that has just ended is not "
    "undone. If the record of the move is damaged (409 `move_record_damaged`) or lost, `force` searches all "
    "stores for the data, and closes the namespace in the store that has them. Open the namespace afterwards. "
    "At any moment, at most one store serves the data."
)
_SLOT_TEXT: Final = (
    "Asks every primary of the Cluster. Refused with 409 `not_on_cluster` if the store of the namespace is not a "
    "Cluster."
)
_MOVE_SLOT_TEXT: Final = (
    "Lets the engine of the store move the slot (Valkey 9, `CLUSTER MIGRATESLOTS`). Masters serve the "
    "namespace during the move. `dry_run` checks the node and measures the data. A `GET` shows the "
    "progress. The engine carries out the move and keeps its progress, so no master has to stay alive. The "
    "audit log records the request. Any namespace can be moved in this way, even `default`."
)
_ABORT_SLOT_TEXT: Final = (
    "Lets the engine cancel the move. The slot stays at its node. Refused with 409 `move_refused` while the "
    "node also moves other slots, because the engine can only cancel all moves of a node together."
)
_OVERVIEW_TEXT: Final = (
    "Reads the figures of each namespace from the namespace's store, at most once a second. If a store does "
    "not answer, only the figures of its namespaces are missing."
)

_OPERATIONS: Final = [
    Operation("GET", "/api/namespaces", handlers.list_namespaces, Scope.READ, "List namespaces", "namespaces",
              {200: schemas.NamespaceList}, problems=(404, *_STORE)),
    Operation("GET", "/api/namespaces/{name}", handlers.get, Scope.READ, "Get a namespace", "namespaces",
              {200: move_schemas.NamespaceDetails}, problems=(404, *_ENTRY)),
    Operation("PUT", "/api/namespaces/{name}", handlers.put, Scope.ADMIN, "Create or change a namespace", "namespaces",
              {200: schemas.NamespaceView, 201: schemas.NamespaceView}, schemas.NamespaceRequest,
              problems=(404, 409, 412, *_ENTRY), text=_PUT_TEXT),
    Operation("DELETE", "/api/namespaces/{name}", handlers.delete, Scope.ADMIN, "Delete a namespace", "namespaces",
              {204: None}, query=_CONFIRM, problems=(404, 409, 412, *_ENTRY), text=_DELETE_TEXT),
    Operation("POST", "/api/namespaces/{name}/close", handlers.close, Scope.ADMIN, "Close a namespace", "namespaces",
              {200: schemas.NamespaceView}, problems=(404, 409, *_ENTRY), text=_CLOSE_TEXT),
    Operation("POST", "/api/namespaces/{name}/open", handlers.open_again, Scope.ADMIN, "Open a namespace",
              "namespaces", {200: schemas.NamespaceView}, problems=(404, 409, *_ENTRY)),
    Operation("POST", "/api/namespaces/{name}/move", handlers.move, Scope.ADMIN, "Move a namespace to another store",
              "namespaces", {200: move_schemas.MovePlanView, 202: move_schemas.NamespaceDetails},
              move_schemas.MoveRequest, problems=(404, 409, *_ENTRY), text=_MOVE_TEXT),
    Operation("DELETE", "/api/namespaces/{name}/move", handlers.abort_move, Scope.ADMIN, "Abort a move", "namespaces",
              {202: move_schemas.NamespaceDetails}, query=_FORCE, problems=(404, 409, *_ENTRY), text=_ABORT_TEXT),
    Operation("GET", "/api/namespaces/{name}/slot", handlers.get_slot, Scope.READ, "Get the slot of a namespace",
              "namespaces", {200: move_schemas.SlotView}, problems=(404, 409, *_ENTRY), text=_SLOT_TEXT),
    Operation("POST", "/api/namespaces/{name}/slot/move", handlers.move_slot, Scope.ADMIN,
              "Move the slot of a namespace to another node", "namespaces",
              {200: move_schemas.SlotMovePlanView, 202: move_schemas.SlotView}, move_schemas.SlotMoveRequest,
              problems=(404, 409, *_ENTRY), text=_MOVE_SLOT_TEXT),
    Operation("DELETE", "/api/namespaces/{name}/slot/move", handlers.abort_slot_move, Scope.ADMIN,
              "Abort the move of a slot", "namespaces", {202: move_schemas.SlotView}, problems=(404, 409, *_ENTRY),
              text=_ABORT_SLOT_TEXT),
    Operation("GET", "/api/overview", handlers.overview, Scope.READ, "Get an overview of all namespaces", "namespaces",
              {200: schemas.Overview}, problems=(404, *_STORE), text=_OVERVIEW_TEXT),
    Operation("GET", "/api/stores", handlers.list_stores, Scope.READ, "List stores", "namespaces",
              {200: schemas.StoreList}, problems=(404, *_STORE)),
]  # fmt: skip

OPERATIONS: Final = [replace(one, is_of_installation=True) for one in _OPERATIONS]
