#!/usr/bin/env python3
"""Checks the consistency proof on standard input: the log of SIZE:ROOT is the beginning of a larger log.

The signature of the checkpoint is checked by signature.py. The exit code is 1 if the proof is invalid.
"""
import argparse
import base64
import hashlib
import sys


def sha256(data):
    return hashlib.sha256(data).digest()


def roots_of_path(old_size, old_root, size, path):
    """RFC 9162, section 2.1.4.2: the roots of the smaller and of the larger log, or None."""
    if old_size & (old_size - 1) == 0:
        path = [old_root, *path]
    first, last = old_size - 1, size - 1
    while first % 2:
        first, last = first // 2, last // 2
    before = after = path[0]
    for step in path[1:]:
        if last == 0:
            return None
        if first % 2 or first == last:
            before, after = sha256(b"\1" + step + before), sha256(b"\1" + step + after)
            while first and first % 2 == 0:
                first, last = first // 2, last // 2
        else:
            after = sha256(b"\1" + after + step)
        first, last = first // 2, last // 2
    return (before, after) if last == 0 else None


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("beginning", metavar="SIZE:ROOT", help="the smaller log, as verify or signature.py prints it")
beginning = parser.parse_args().beginning
old_size, old_root = int(beginning.split(":")[0]), bytes.fromhex(beginning.split(":")[1])

sys.excepthook = lambda kind, error, trace: print(f"malformed input: {error}", file=sys.stderr)
proof, checkpoint = sys.stdin.read().replace("\r\n", "\n").split("\n\n")[:2]
old, *path = proof.split("\n")
_, size, root = checkpoint.split("\n")[:3]
path = [base64.b64decode(step) for step in path]
is_from = old == f"old {old_size}" and 0 < old_size < int(size) and path
if not is_from or roots_of_path(old_size, old_root, int(size), path) != (old_root, base64.b64decode(root)):
    print("no proof")
    sys.exit(1)
print(f"{beginning} is the beginning of {size}:{base64.b64decode(root).hex()}")
