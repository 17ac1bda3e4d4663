#!/usr/bin/env python3
"""Computes SIZE:ROOT, the Merkle root, of the events on standard input.

The input has one event per line, as `bin/plant-store replay` and `GET /events` print them.
With SIZE, only the first SIZE events are read: those of a checkpoint.
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


def tree_head(lines):
    size, trees = 0, []  # the roots of the perfect subtrees, the largest first
    for line in lines:
        try:
            node, rest = leaf_hash(json.loads(line)), size
        except (ValueError, KeyError, TypeError):
            sys.exit(f"line {size + 1} is not an event of this service, but: {line[:200].decode(errors='replace')!r}")
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
size, root = tree_head(itertools.islice(sys.stdin.buffer, expected))
if expected not in (None, size):
    sys.exit(f"the input has {size} events, fewer than {expected}")
print(f"{size}:{root.hex()}")
