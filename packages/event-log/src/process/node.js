// Runs on every Node since 18: JavaScript without dependencies.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';

/** The same as `engines` in package.json. */
const REQUIRED = '24.14';

/** Runs `node ARGS…` on the Node that npm has installed, or else on this Node, and exits like it. */
export function runNode(args) {
  const node = installedNode() ?? (isNewEnough() ? process.execPath : undefined);
  if (!node) return end(`Node ${process.versions.node} is too old; install Node ${REQUIRED} or later.`);
  // Before the child runs, so that every signal is passed on.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(signal, () => {
      if (process.platform !== 'win32') child.kill(signal); // on Windows, the console signals the child
    });
  const child = spawn(node, args, { stdio: 'inherit' });
  child.on('error', ({ message }) => end(message));
  child.on('exit', (code, signal) => {
    if (!signal) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

/** Runs `start`; if this Node is too old, runs the same command on the Node that npm has installed. */
export function onRequiredNode(start) {
  return isNewEnough() ? start() : runNode(process.argv.slice(1));
}

function isNewEnough() {
  const [[major, minor], [least, leastMinor]] = [process.versions.node, REQUIRED].map((one) =>
    one.split('.').map(Number),
  );
  return major > least || (major === least && minor >= leastMinor);
}

/** The Node of the optional dependency in package.json. */
function installedNode() {
  const { resolve } = createRequire(import.meta.url);
  const [system, suffix] = process.platform === 'win32' ? ['win', '.exe'] : [process.platform, ''];
  for (const name of ['node', 'node-bin'])
    try {
      return resolve(`${name}-${system}-${process.arch}/bin/node${suffix}`);
    } catch {}
  return undefined;
}

function end(message) {
  process.stderr.write(`${message}\n`);
  process.exitCode = 1;
}
