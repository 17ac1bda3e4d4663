#!/usr/bin/env python3
"""Checks the inclusion proof (a receipt) on standard input against the root of its checkpoint.

The signature of the checkpoint is checked by signature.py. The exit code is 1 if the proof is invalid.
"""
import argparse
import base64
import hashlib
import json
import sys


def sha256(data):
    return hashlib.sha256(data).digest()


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


def refuse(expected, got):
    sys.exit(f"not {expected}, but: {got[:200]!r}" if got.strip() else f"not {expected}: the input is empty")


argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
sys.excepthook = lambda kind, error, trace: print(f"malformed input: {error}", file=sys.stderr)
text = sys.stdin.read().replace("\r\n", "\n")
if not text.startswith("c2sp.org/tlog-proof@v1\n") or "\n\n" not in text:
    refuse("an inclusion proof", text)
proof, checkpoint = text.split("\n\n")[:2]
_, extra, index, *path = proof.split("\n")
_, size, root = checkpoint.split("\n")[:3]
entry = base64.b64decode(extra.removeprefix("extra "))
index = int(index.removeprefix("index "))
node = root_of_path(entry, index, int(size), [base64.b64decode(step) for step in path])
if node != base64.b64decode(root):
    print("no proof")
    sys.exit(1)
try:
    event = json.loads(entry)
    shown = [event["stream"], event["id"], event.get("data", event.get("dataAndMetadata"))]
except (ValueError, KeyError, TypeError, AttributeError):  # not the entry of an event
    shown = entry.decode(errors="replace")
print(f"{json.dumps(shown)} is number {index + 1} of {size}:{node.hex()}")
