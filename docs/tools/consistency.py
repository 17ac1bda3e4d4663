#!/usr/bin/env python3
"""Checks the consistency proof on standard input: the log of SIZE:ROOT is the beginning of a larger log.

If the log has also signed OTHER, another root of the same size, the proof shows a fork.
The signature of the checkpoint is checked by signature.py. The exit code is 1 if the proof is invalid.
"""
import argparse
import base64
import hashlib
import re
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


def head(argument):
    if not re.fullmatch("[0-9]{1,15}:[0-9a-fA-F]{64}", argument):
        raise argparse.ArgumentTypeError(f"expected a size and a root, such as 7:62260d…, but got {argument[:200]!r}")
    return argument.lower()


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("beginning", metavar="SIZE:ROOT", type=head, help="the smaller log, as verify or signature.py prints it")
parser.add_argument("other", metavar="OTHER", type=head, nargs="?", help="another SIZE:ROOT that was signed, of the same size")
options = parser.parse_args()

beginning, other = options.beginning, options.other
old_size, old_root = int(beginning.split(":")[0]), bytes.fromhex(beginning.split(":")[1])
text = sys.stdin.buffer.read().decode(errors="replace").replace("\r\n", "\n")
try:
    proof, checkpoint = text.split("\n\n")[:2]
    old, *path = proof.split("\n")
    _, size, root = checkpoint.split("\n")[:3]
    if not old.startswith("old "):
        raise ValueError
    from_size, size = int(old[4:]), int(size)
    path, root = [base64.b64decode(step) for step in path], base64.b64decode(root)
except ValueError:
    refuse("a consistency proof", text)
is_from = from_size == old_size and 0 < old_size < size and path
if not is_from or roots_of_path(old_size, old_root, size, path) != (old_root, root):
    print("no proof")
    sys.exit(1)
later = f"{size}:{root.hex()}"
if other is None:
    print(f"{beginning} is the beginning of {later}")
elif other != beginning and other.split(":")[0] == beginning.split(":")[0]:
    print(f"fork: {later} begins with {beginning}, and not with {other}")
else:
    sys.exit(f"no fork: {other} is not another root of {old_size} events")
