#!/usr/bin/env node
// The entry point. It imports dynamically: an old Node cannot load the rest, and dependencies may be missing.

import('@event-sourced/event-log/node.js').then(
  ({ onRequiredNode }) =>
    onRequiredNode(async () => (await import('@event-sourced/transparency-log/cli')).main(process)),
  () => {
    process.stderr.write('The dependencies are missing; run `npm ci` first.\n');
    process.exitCode = 1;
  },
);
