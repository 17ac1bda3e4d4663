#!/usr/bin/env python3
"""Computes SIZE:ROOT, the Merkle root, of the events on standard input.

The input has one event per line, as `bin/plant-store replay` and `GET /events` print them.
With SIZE, the root is that of the first SIZE events: those of a checkpoint.
An erased event has its leaf hash instead. A later event of type EventsErased must be the record of it.
It computes the root of events that this service has written; packages/transparency-log/SPECIFICATION.md has the rules for others.
"""
import argparse
import hashlib
import itertools
import json
import sys


def sha256(data):
    return hashlib.sha256(data).digest()


def leaf_hash(event):
    if "erased" in event:
        return bytes.fromhex(event["erased"])
    leaf = {
        "data": event["data"],
        "id": event["id"],
        "metadata": json.loads(event["metadata"]),
        "revision": event["revision"],
        "stream": event["subject"],
        "type": event["type"],
    }
    text = json.dumps(leaf, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return sha256(b"\0" + text.encode())


def events(lines):
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
            yield event, leaf_hash(event)
        except (ValueError, KeyError, TypeError):
            sys.exit(f"line {number} is not an event of this service, but: {line[:200].decode(errors='replace')!r}")


def named_by(event):
    try:
        return [erased["leaf"] for erased in event["data"]["events"]] if event["type"] == "EventsErased" else []
    except (KeyError, TypeError):
        return []  # another program wrote it


def checked_for_records(events):
    stubs = {}  # the erased events without a record so far: their lines by their hashes
    for number, (event, leaf) in enumerate(events, 1):
        if "erased" in event:
            stubs[leaf.hex()] = number
        for leaf_of_stub in named_by(event):
            stubs.pop(leaf_of_stub, None)
        yield leaf
    if stubs:
        sys.exit(f"line {min(stubs.values())} is an erased event, and no later line is the record of it; read the events again, to their end")


def tree_head(leaves):
    size, trees = 0, []  # the roots of the perfect subtrees, the largest first
    for node in leaves:
        rest = size
        while rest % 2:
            node, rest = sha256(b"\1" + trees.pop() + node), rest // 2
        trees.append(node)
        size += 1
    root = trees.pop() if trees else sha256(b"")
    while trees:
        root = sha256(b"\1" + trees.pop() + root)
    return size, root


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("size", metavar="SIZE", type=int, nargs="?", help="the number of events; by default all")
expected = parser.parse_args().size
leaves = checked_for_records(events(sys.stdin.buffer))
size, root = tree_head(itertools.islice(leaves, expected))
for _ in leaves:  # the record of an erased event may follow
    pass
if expected not in (None, size):
    sys.exit(f"the input has {size} events, fewer than {expected}")
print(f"{size}:{root.hex()}")
