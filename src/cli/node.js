#!/usr/bin/env node
// `node src/cli/node.js ARGS…` runs `node ARGS…` on the Node that npm has installed. npm scripts start with
// `exec node src/cli/node.js`: without `exec`, a signal to npm would stop at its shell. Where the shell has no `exec`,
// as on Windows, `exec` is this file in node_modules/.bin, and only runs its arguments.
const args = process.argv.slice(process.argv[2] === 'node' ? 3 : 2);

import('@event-sourced/event-log/node.js').then(
  ({ runNode }) => runNode(args),
  () => {
    process.stderr.write('The dependencies are missing; run `npm ci` first.\n');
    process.exitCode = 1;
  },
);
