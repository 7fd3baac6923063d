"""A small judge of JSON Schema: the words that our schema uses, and an error for any other."""

from __future__ import annotations

import re
from typing import Any

TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
ANNOTATIONS = {"$schema", "$defs", "title", "description", "default"}


def faults(schema: dict[str, Any], value: Any, root: dict[str, Any], place: str = "$") -> list[str]:
    """What of `value` the schema does not allow, each with its place."""
    found: list[str] = []
    for word, rule in schema.items():
        if word == "$ref":
            found += faults(root["$defs"][rule.removeprefix("#/$defs/")], value, root, place)
        elif word == "anyOf":
            if all(faults(choice, value, root, place) for choice in rule):
                found.append(f"{place}: none of the choices")
        elif word == "type":
            kind = TYPES[rule]
            if not isinstance(value, kind) or (rule == "integer" and isinstance(value, bool)):
                found.append(f"{place}: not {rule}")
        elif word == "enum":
            if value not in rule:
                found.append(f"{place}: {value!r} is not one of {rule}")
        elif word == "required":
            found += [f"{place}: no {name}" for name in rule if name not in value]
        elif word == "properties":
            for name, inner in rule.items():
                if isinstance(value, dict) and name in value:
                    found += faults(inner, value[name], root, f"{place}.{name}")
        elif word == "additionalProperties":
            for name, inner in value.items():
                if name not in schema.get("properties", {}):
                    found += faults(rule, inner, root, f"{place}.{name}")
        elif word == "items":
            if rule is not False and isinstance(value, list):
                for i, item in enumerate(value[len(schema.get("prefixItems", [])) :]):
                    found += faults(rule, item, root, f"{place}[{i}]")
        elif word == "prefixItems":
            for i, (inner, item) in enumerate(zip(rule, value, strict=True)):
                found += faults(inner, item, root, f"{place}[{i}]")
        elif word in ("minimum", "maximum"):
            if isinstance(value, int) and (value < rule if word == "minimum" else value > rule):
                found.append(f"{place}: {value} against {word} {rule}")
        elif word in ("minLength", "maxLength", "minItems", "maxItems"):
            if isinstance(value, (str, list)) and (len(value) < rule if word.startswith("min") else len(value) > rule):
                found.append(f"{place}: length {len(value)} against {word} {rule}")
        elif word == "pattern":
            if isinstance(value, str) and not re.search(rule, value):
                found.append(f"{place}: {value!r} does not match {rule}")
        elif word not in ANNOTATIONS:
            found.append(f"{place}: the schema uses {word}, which this judge does not know")
    return found
