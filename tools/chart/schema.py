"""Write values.schema.json, which refuses values that the chart does not know: `python -m tools.chart.schema`.

The names, types and bounds in `masters.settings` come from the settings of masters. So the schema knows a new setting
at once.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any, Final, get_args

from pydantic import SecretStr

from jqmaster.config import Settings, StoreSettings
from tools.chart import files

Schema = dict[str, Any]

# Settings that users cannot set directly: the chart sets them, or derives them from its values store, auth, tls and
# masters.lingerS.
OWN: Final = frozenset(
    {
        "advertised_url", "calls_cafile", "calls_certfile", "calls_keyfile", "data_dir", "host", "linger_s", "node_id",
        "port", "processes", "redis_cafile", "redis_certfile", "redis_keyfile", "redis_url", "tls_certfile",
        "tls_client_cafile", "tls_keyfile", "tokens", "tokens_file",
    }
)  # fmt: skip

_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "boolean"}
_ANY: Final[Schema] = {"type": "object"}
_ANY_LIST: Final[Schema] = {"type": "array", "items": {"type": "object"}}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}
_MAP: Final[Schema] = {"type": "object", "additionalProperties": _TEXT}
# The name of a group of workers must be short. It is part of names in Kubernetes, which have at most 63 characters.
_GROUP_NAME: Final[Schema] = {"type": "string", "pattern": "^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$"}
_DURATION: Final[Schema] = {"type": "string", "pattern": "^([0-9]+(h|m|s))+$"}
_REFERENCE_KEYS: Final = ("secret", "key")


def _exactly(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """Return the schema of an object that has only these keys."""
    found: Schema = {"type": "object", "additionalProperties": False, "properties": dict(properties)}
    return found | {"required": list(required)} if required else found


def _whole(least: int, most: int | None = None) -> Schema:
    return {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})


def _one_of(*words: str) -> Schema:
    return {"enum": list(words)}


_REFERENCE: Final = _exactly({"secret": _TEXT, "key": _TEXT}, _REFERENCE_KEYS)
_IMAGE: Final = {
    "repository": _TEXT,
    "tag": _TEXT,
    "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
}
_PLACEMENT: Final = {
    "podAnnotations": _MAP,
    "podLabels": _MAP,
    "nodeSelector": _MAP,
    "tolerations": _ANY_LIST,
    "affinity": _ANY,
    "priorityClassName": _TEXT,
    "resources": _ANY,
    "extraEnv": _ANY_LIST,
    "extraVolumes": _ANY_LIST,
    "extraVolumeMounts": _ANY_LIST,
}


# The types of settings that belong in a Secret.
_SECRETS: Final = frozenset({SecretStr, StoreSettings})


def is_secret(name: str) -> bool:
    """Return whether a setting is secret. Such a setting belongs in a Secret instead of the values."""
    annotation = Settings.model_fields[name].annotation
    kinds = {annotation, *get_args(annotation)}
    return bool(kinds & _SECRETS) or any(_SECRETS & {*get_args(kind)} for kind in kinds)


def _settings() -> Schema:
    known = Settings.model_json_schema()["properties"]
    return _exactly(
        {
            name: _plain(known[name])
            for name in Settings.model_fields
            if name not in OWN and not is_secret(name)
        }
    )


def _plain(field: Schema) -> Schema:
    """Return the schema of a setting in the values. It has no default, and the value must not be null."""
    kept = {key: value for key, value in field.items() if key not in ("default", "title")}
    kinds = [kind for kind in kept.pop("anyOf", []) if kind != {"type": "null"}]
    for kind in kinds:
        kept |= {key: value for key, value in kind.items() if key != "format"}
    kept.pop("format", None)
    return kept


def _workers(*, is_group: bool) -> Schema:
    keys: Schema = {
        "kind": _one_of("Deployment", "ScaledJob"),
        "target": {"type": "string", "pattern": "^([A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*)?$"},
        "autodiscover": _TEXTS,
        "commands": {"type": "array", "items": {"type": "string", "pattern": "^[^=]+=."}},
        "image": _exactly(_IMAGE),
        "mode": _one_of("push", "pull"),
        "port": _whole(1024, 65535),
        "replicas": _whole(0),
        "slots": _whole(1, 1000),
        "labels": _MAP,
        "graceS": _whole(0),
        "names": _TEXTS,
        "scaling": _exactly(
            {
                "by": _one_of("none", "keda", "hpa"),
                "min": _whole(0),
                "max": _whole(1),
                "pollingS": _whole(1),
                "cooldownS": _whole(0),
                "scaleDownAfterS": _whole(0, 3600),
                "hpaMetrics": _ANY_LIST,
                "burstWaitS": _whole(1),
                "deadlineS": _whole(0),
            }
        ),
        "token": _exactly({"secret": _TEXT, "key": _TEXT}),
        "tlsSecret": _TEXT,
        "egress": _ANY_LIST,
        "maxUnavailable": {"anyOf": [_whole(1), {"type": "string", "pattern": "^[1-9][0-9]?%$"}]},
        "serviceAccountName": _TEXT,
        "extraEnvFrom": _ANY_LIST,
        **_PLACEMENT,
    }
    return _exactly({"name": _GROUP_NAME, **keys}, ("name",)) if is_group else _exactly(keys)


def _store() -> Schema:
    return _exactly(
        {
            "mode": _one_of("external", "embedded"),
            "external": _exactly({"url": _REFERENCE, "ca": _REFERENCE, "clientCertificate": _TEXT}),
            "embedded": _exactly(
                {
                    "size": {"type": "string", "pattern": "^[0-9]+(Mi|Gi|Ti)$"},
                    "storageClass": _TEXT,
                    "whenDeleted": _one_of("Retain", "Delete"),
                }
            ),
        }
    )


def _masters() -> Schema:
    secret_settings = {
        name: _REFERENCE for name in Settings.model_fields if is_secret(name) and name not in OWN
    }
    return _exactly(
        {
            "replicas": _whole(1),
            "settings": _settings(),
            "secretSettings": _exactly(secret_settings),
            "lingerS": _whole(0, 30),
            "preStopSleepS": _whole(0),
            "stopWithinS": _whole(10),
            "service": _exactly(
                {
                    "type": _one_of("ClusterIP", "NodePort", "LoadBalancer"),
                    "port": _whole(1, 65535),
                    "annotations": _MAP,
                }
            ),
            **_PLACEMENT,
        }
    )


def _tls() -> Schema:
    return _exactly(
        {
            "enabled": _FLAG,
            "certManager": _exactly(
                {
                    "enabled": _FLAG,
                    "issuer": _exactly(
                        {
                            "name": _TEXT,
                            "kind": _one_of("Issuer", "ClusterIssuer"),
                            "group": _TEXT,
                        }
                    ),
                    "duration": _DURATION,
                    "renewBefore": _DURATION,
                }
            ),
            "mastersSecret": _TEXT,
            "clientSecret": _TEXT,
            "extraDnsNames": _TEXTS,
            "mastersWantCertificates": _FLAG,
            "workersWantCertificates": _FLAG,
        }
    )


def _network_policy() -> Schema:
    return _exactly(
        {
            "enabled": _FLAG,
            "clients": _ANY_LIST,
            "ingressController": _ANY_LIST,
            "prometheus": _ANY_LIST,
            "keda": _ANY_LIST,
            "dns": _ANY_LIST,
            "store": _exactly(
                {
                    "to": _ANY_LIST,
                    "ports": {"type": "array", "minItems": 1, "items": _whole(1, 65535)},
                    "podLabels": _MAP,
                }
            ),
            "mastersEgress": _ANY_LIST,
        }
    )


def schema() -> Schema:
    """Return the schema of the values."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the chart jqmaster. Written by `make docs` from tools/chart/schema.py; do not edit.",
        **_exactly(
            {
                # Helm passes these values from a parent chart on to this chart.
                "global": _ANY,
                "nameOverride": _TEXT,
                "fullnameOverride": _TEXT,
                "commonLabels": _MAP,
                "image": _exactly(
                    _IMAGE | {"pullPolicy": _one_of("Always", "IfNotPresent", "Never"), "pullSecrets": _TEXTS}
                ),
                "ipFamily": _one_of("IPv4", "IPv6"),
                "auth": _exactly({"tokens": _REFERENCE, "worker": _REFERENCE, "read": _REFERENCE}),
                "store": _store(),
                "masters": _masters(),
                "workers": {"type": "array", "items": _workers(is_group=True)},
                "workerDefaults": _workers(is_group=False),
                "tls": _tls(),
                "ingress": _exactly(
                    {
                        "enabled": _FLAG,
                        "className": _TEXT,
                        "host": _TEXT,
                        "tlsSecret": _TEXT,
                        "trustedProxies": _TEXTS,
                        "annotations": _MAP,
                    }
                ),
                "networkPolicy": _network_policy(),
                "monitoring": _exactly(
                    {
                        "podMonitor": _exactly({"enabled": _FLAG, "labels": _MAP, "interval": _DURATION}),
                        "rules": _exactly({"enabled": _FLAG, "labels": _MAP}),
                        "dashboard": _exactly({"enabled": _FLAG, "labels": _MAP}),
                    }
                ),
                "test": _exactly({"enabled": _FLAG}),
            }
        ),
    }


def text() -> str:
    """Return the content of values.schema.json."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    files.SCHEMA.write_text(text(), "utf-8")
    sys.stdout.write(f"wrote {files.SCHEMA.relative_to(files.ROOT)}\n")
