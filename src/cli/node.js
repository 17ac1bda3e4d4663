#!/usr/bin/env node
// `node src/cli/node.js ARGS…` runs `node ARGS…` on the Node that npm has installed. npm scripts start with
// `exec node src/cli/node.js`: without `exec`, a signal to npm would stop at its shell. Where the shell has no `exec`,
// as on Windows, `exec` is this file in node_modules/.bin, and only runs its arguments.
import { whenInstalled } from './whenInstalled.js';

const args = process.argv.slice(process.argv[2] === 'node' ? 3 : 2);

whenInstalled(({ runNode }) => runNode(args));
