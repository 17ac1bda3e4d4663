#!/usr/bin/env python3
"""Checks the inclusion proof (a receipt) on standard input against the root of its checkpoint.

It reads receipts of events that this service has written. The signature of the checkpoint is checked by signature.py.
The exit code is 1 if the proof is invalid.
"""
import argparse
import base64
import hashlib
import json
import sys

MEMBERS = {"data", "id", "metadata", "revision", "stream", "type"}


def sha256(data):
    return hashlib.sha256(data).digest()


def canonical(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def entry_of(text, event):
    return sha256(canonical({"sha256": sha256(text).hex(), "type": event["type"]}))


def root_of_path(entry, index, size, path):
    """RFC 9162, section 2.1.3.2: the root to which the path leads, or None."""
    if not 0 <= index < size:
        return None
    node, last = sha256(b"\0" + entry), size - 1
    for step in path:
        if last == 0:
            return None
        if index % 2 or index == last:
            node = sha256(b"\1" + step + node)
            while index and index % 2 == 0:
                index, last = index // 2, last // 2
        else:
            node = sha256(b"\1" + node + step)
        index, last = index // 2, last // 2
    return node if last == 0 else None


def names_of(event, index):
    """The indices of the events that a record names, or None if it is no record."""
    data = event["data"]
    names = data["erased"] if isinstance(data, dict) and list(data) == ["erased"] else None
    if event["type"] != "EventsErased" or not isinstance(names, list) or not 1 <= len(names) <= 10_000:
        return None
    is_ascending = all(type(b) is int and a < b for a, b in zip([-1, *names], [*names, index]))
    return names if is_ascending else None


def refuse(expected, got):
    sys.exit(f"not {expected}, but: {got[:200]!r}" if got.strip() else f"not {expected}: the input is empty")


argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
text = sys.stdin.buffer.read().decode(errors="replace").replace("\r\n", "\n")
try:
    proof, checkpoint = text.split("\n\n")[:2]
    first, extra, number, *path = proof.split("\n")
    _, size, root = checkpoint.split("\n")[:3]
    if [first, extra[:6], number[:6]] != ["c2sp.org/tlog-proof@v1", "extra ", "index "]:
        raise ValueError
    extra, index, size = base64.b64decode(extra[6:], validate=True), int(number[6:]), int(size)
    path, root = [base64.b64decode(step) for step in path], base64.b64decode(root)
except ValueError:
    refuse("an inclusion proof", text)
try:
    event = json.loads(extra)
    if canonical(event) != extra or set(event) != MEMBERS:  # otherwise two members may have one name
        raise ValueError
except (ValueError, TypeError, RecursionError):
    refuse("the canonical text of an event of this service", extra.decode(errors="replace"))
if root_of_path(entry_of(extra, event), index, size, path) != root:
    print("no proof")
    sys.exit(1)
names = names_of(event, index)
if names:
    listed = ", ".join(map(str, names))
    print(f"record {index} names {len(names)} event{'s' * (len(names) > 1)} ({listed}) as erased, in {size}:{root.hex()}")
else:
    shown = json.dumps([event["stream"], event["id"], event["data"]])
    print(f"{shown} is at index {index} of {size}:{root.hex()}")
