#!/usr/bin/env python3
"""Checks the consistency proof on standard input: the log of SIZE:ROOT is the beginning of a larger log.

If the log has also signed OTHER, another root of the same size, the proof shows a fork.
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


def refuse(expected, got):
    sys.exit(f"not {expected}, but: {got[:200]!r}" if got.strip() else f"not {expected}: the input is empty")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("beginning", metavar="SIZE:ROOT", help="the smaller log, as verify or signature.py prints it")
parser.add_argument("other", metavar="OTHER", nargs="?", help="another SIZE:ROOT that was signed, of the same size")
options = parser.parse_args()

sys.excepthook = lambda kind, error, trace: print(f"malformed input: {error}", file=sys.stderr)
beginning, other = options.beginning, options.other
old_size, old_root = int(beginning.split(":")[0]), bytes.fromhex(beginning.split(":")[1])
text = sys.stdin.read().replace("\r\n", "\n")
if not text.startswith("old ") or "\n\n" not in text:
    refuse("a consistency proof", text)
proof, checkpoint = text.split("\n\n")[:2]
old, *path = proof.split("\n")
_, size, root = checkpoint.split("\n")[:3]
path = [base64.b64decode(step) for step in path]
is_from = old == f"old {old_size}" and 0 < old_size < int(size) and path
if not is_from or roots_of_path(old_size, old_root, int(size), path) != (old_root, base64.b64decode(root)):
    print("no proof")
    sys.exit(1)
later = f"{size}:{base64.b64decode(root).hex()}"
if other is None:
    print(f"{beginning} is the beginning of {later}")
elif other != beginning and other.split(":")[0] == str(old_size):
    print(f"fork: {later} begins with {beginning}, and not with {other}")
else:
    sys.exit(f"no fork: {other} is not another root of {old_size} events")
