#!/usr/bin/env node
// `node src/cli/node.js ARGS…` runs `node ARGS…` on the Node that npm has installed. npm scripts start with
// `exec node src/cli/node.js`, so that a signal to npm does not end at its shell. Where `exec` is no part of the shell, as on
// Windows, it is this file in node_modules/.bin, and does nothing else.
const args = process.argv.slice(process.argv[2] === 'node' ? 3 : 2);

import('@event-sourced/event-log/node.js').then(
  ({ runNode }) => runNode(args),
  () => {
    process.stderr.write('The dependencies are missing; run `npm ci` first.\n');
    process.exitCode = 1;
  },
);
