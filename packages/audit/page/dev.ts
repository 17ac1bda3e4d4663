import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { context, type Plugin } from 'esbuild';
import { BUNDLE_OPTIONS } from './build.ts';

// npm run dev: the service, restarted when a source changes. The page is bundled again when one of its sources changes.

const SERVICE = ['--watch', '--watch-preserve-output', 'src/cli/main.ts'];
let running: ChildProcess | undefined;

/** The service keeps the page in memory: it starts again with each bundle. */
async function restart(): Promise<void> {
  await stop('SIGTERM');
  running = spawn(process.execPath, SERVICE, { stdio: 'inherit' });
}

async function stop(signal: NodeJS.Signals): Promise<void> {
  if (!running || running.exitCode !== null) return;
  const ended = once(running, 'exit');
  running.kill(signal);
  await ended;
}

const plugin: Plugin = { name: 'restart', setup: (build) => build.onEnd(restart) };
await (await context({ ...BUNDLE_OPTIONS, plugins: [plugin], write: true })).watch();
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => void stop(signal).then(() => process.exit()));
