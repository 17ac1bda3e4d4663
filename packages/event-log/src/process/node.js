// Runs on every Node since 18: JavaScript without dependencies.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';

/** As engines in package.json. */
const REQUIRED = 24;
const SHELL_CHECK_INTERVAL_MS = 200;

/** Runs `node ARGS…` on the Node that npm has installed, or else on this one, and ends as it ends. */
export function runNode(args) {
  const node = installedNode() ?? (isNewEnough() ? process.execPath : undefined);
  if (!node) return end(`Node ${process.versions.node} is too old; install Node ${REQUIRED} or later.`);
  const child = spawn(node, args, { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(signal, () => {
      if (process.platform !== 'win32') child.kill(signal); // there it would kill, and the console signals the child, too
    });
  whenShellEnds(() => child.kill());
  child.on('error', ({ message }) => end(message));
  child.on('exit', (code, signal) => {
    if (!signal) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

/** Runs `start`, or, if this Node is too old, the same command on the one that npm has installed. */
export function onRequiredNode(start) {
  if (!isNewEnough()) return runNode(process.argv.slice(1));
  whenShellEnds(() => process.kill(process.pid, 'SIGTERM'));
  return start();
}

const isNewEnough = () => Number(process.versions.node.split('.')[0]) >= REQUIRED;

/** The file of the optional dependency of package.json. */
function installedNode() {
  const { resolve } = createRequire(import.meta.url);
  const [system, suffix] = process.platform === 'win32' ? ['win', '.exe'] : [process.platform, ''];
  for (const name of ['node', 'node-bin'])
    try {
      return resolve(`${name}-${system}-${process.arch}/bin/node${suffix}`);
    } catch {}
  return undefined;
}

/** npm and npx pass signals to their shell, which may end without passing them on. */
function whenShellEnds(stop) {
  if (!process.env.npm_lifecycle_event) return;
  const shell = process.ppid;
  const check = setInterval(() => {
    if (process.ppid === shell) return;
    clearInterval(check);
    stop();
  }, SHELL_CHECK_INTERVAL_MS).unref();
}

function end(message) {
  process.stderr.write(`${message}\n`);
  process.exitCode = 1;
}
