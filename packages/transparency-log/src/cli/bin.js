#!/usr/bin/env node
// An old Node cannot load the rest, but must parse this file. package.json has the same version.
const REQUIRED = 24;
if (Number(process.versions.node.split('.')[0]) < REQUIRED) {
  process.stderr.write(`Node ${process.versions.node} is too old; install Node ${REQUIRED} or later.\n`);
  process.exit(1);
}

import('@event-sourced/transparency-log/cli').then(({ main }) => main(process));
