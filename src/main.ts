import { CommanderError } from 'commander';
import pino from 'pino';
import pretty from 'pino-pretty';
import { commandLine } from './commands/commandLine.ts';
import type { Surroundings } from './commands/surroundings.ts';
import { type Config, readConfig } from './config.ts';
import { makeDataDir } from './dataDir.ts';
import { reportProgress } from './progress.ts';
import type { Service } from './serve.ts';

// The command line, and the only place that touches the process: environment, arguments, signals, exit codes.
// What only one command needs is loaded when it runs: that is most of the time that a short one takes.

/** Time for everything in flight to end after a signal, in milliseconds. */
const GRACE = 3_500;
/** Then connections are cut, and by this time the process has ended, whatever the disk does. */
const LAST = 4_800;
/** A terminal's Ctrl-C reaches this process twice, from the terminal and from npm: within this time it is one signal. */
const SAME_SIGNAL = 500;
/** Time for a command to put away what it has begun after a signal, in milliseconds. */
const TIDYING = 1_000;

async function runServer(config: Config): Promise<void> {
  process.umask(0o077); // plants are nobody else's business, whatever the directory allows
  const onTerminal = process.stdout.isTTY === true;
  const destination = onTerminal ? pretty({ sync: true }) : pino.destination({ sync: false });
  const log = pino(
    { level: config.logLevel, base: null, timestamp: pino.stdTimeFunctions.isoTime },
    destination,
  );

  const die = (error: unknown, message: string): void => {
    log.fatal({ err: error }, message);
    process.exit(1);
  };
  process.on('uncaughtException', (error) => die(error, 'a fault that nobody has caught'));
  process.on('unhandledRejection', (error) => die(error, 'a fault that nobody has caught'));

  const { serve } = await import('./serve.ts');
  const starting = serve(config, {
    log,
    onProgress: reportProgress(log, onTerminal),
    onFatal: (error) => die(error, 'the log can no longer be trusted to reach the disk'),
  });
  closeOnSignals(starting, log); // from the first moment that anyone can know of this process
  const service = await starting;
  if (service.isNew && !config.jwksUrl) process.stdout.write(firstSteps(config, service.url));
}

function closeOnSignals(starting: Promise<Service>, log: pino.Logger): void {
  let first: { signal: NodeJS.Signals; at: number } | undefined;
  const close = async (signal: NodeJS.Signals): Promise<void> => {
    if (first) {
      if (signal === first.signal && performance.now() - first.at < SAME_SIGNAL) return;
      log.warn({ signal }, 'ending at once');
      endAtOnce();
    }
    first = { signal, at: performance.now() };
    log.info({ signal }, 'closing');
    setTimeout(endAtOnce, LAST).unref();
    try {
      const service = await starting;
      setTimeout(() => service.cutConnections(), GRACE).unref();
      await service.close();
      log.info('closed');
    } catch (error) {
      log.error({ err: error }, 'closed, not cleanly');
    }
    process.exit(0);
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void close(signal));
}

/** `process.exit` would wait for a thread that waits for the disk. */
function endAtOnce(): void {
  process.kill(process.pid, 'SIGKILL');
}

/** A POST and a GET to paste into a shell in the project's folder; the tokens are made there, so none is printed. */
function firstSteps(config: Config, url: string): string {
  const base = url.replace('0.0.0.0', '127.0.0.1').replace('[::]', '[::1]');
  const quoted = (value: string): string => `'${value.replaceAll("'", `'\\''`)}'`;
  const settings = [
    config.dataDir === './data' ? '' : `DATA_DIR=${quoted(config.dataDir)} `,
    config.keyFile === `${config.dataDir}/key.json` ? '' : `KEY_FILE=${quoted(config.keyFile)} `,
    config.issuer === undefined ? '' : `JWT_ISSUER=${quoted(config.issuer)} `,
    config.audience === undefined ? '' : `JWT_AUDIENCE=${quoted(config.audience)} `,
  ].join('');
  const curl = `curl -s ${base}/plants -H "Authorization: Bearer $(${settings}npm run -s token -- demo)"`;
  const plant = quoted(JSON.stringify({ id: 1, name: 'Fern', tag: 'indoor' }));
  return `Create a plant, and list your plants:
${curl} -H 'Content-Type: application/json' -d ${plant}
${curl}
`;
}

async function printToken(user: string, grant: { expires: string; scope?: string }): Promise<void> {
  const { jwksUrl, issuer, audience, dataDir, keyFile } = readConfig(process.env);
  if (jwksUrl) throw new Error('JWKS_URL is set: tokens come from the identity provider');
  const { issueToken } = await import('./tokens/issueToken.ts');
  const { loadOrCreateKey } = await import('./tokens/keyFile.ts');
  makeDataDir(dataDir);
  const { privateKey } = loadOrCreateKey(keyFile);
  const token = await issueToken(privateKey, { user, ...grant, issuer, audience });
  process.stdout.write(`${token}\n`);
}

/** Runs a command of the command line: Ctrl-C lets it put away what it has begun, a second one does not. */
async function runCommand(run: (surroundings: Surroundings) => Promise<void>): Promise<void> {
  process.umask(0o077);
  const stopping = new AbortController();
  let first: { signal: NodeJS.Signals; at: number } | undefined;
  const stop = (signal: NodeJS.Signals): void => {
    if (first && performance.now() - first.at > SAME_SIGNAL) endBy(signal);
    first ??= { signal, at: performance.now() };
    stopping.abort(new Error(`stopped by ${signal}`));
    setTimeout(endBy, TIDYING, signal).unref();
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, stop);
  const surroundings: Surroundings = {
    get config() {
      return readConfig(process.env);
    },
    input: process.stdin,
    output: process.stdout,
    say,
    onTerminal: process.stderr.isTTY === true,
    signal: stopping.signal,
    onFatal: mistrust,
  };
  process.stdout.on('error', () => {}); // whoever writes is told
  try {
    await run(surroundings);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return; // as in `… | head`: that was all they wanted
    if (!first) throw error;
  } finally {
    if (first) endBy(first.signal);
  }
}

/** Ends as a process without a handler does, so that a shell sees why. */
function endBy(signal: NodeJS.Signals): void {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}

async function runCopy(args: string[]): Promise<void> {
  process.umask(0o077);
  const { copy } = await import('./copy/copy.ts');
  const result = await copy(args, { say, onTerminal: process.stderr.isTTY === true, onFatal: mistrust });
  process.stdout.write(`${result}\n`);
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

function mistrust({ message }: Error): void {
  say(`the log can no longer be trusted to reach the disk: ${message}`);
  process.exit(1);
}

const program = commandLine({
  server: () => runServer(readConfig(process.env)),
  token: printToken,
  copy: runCopy,
  command: runCommand,
});
program.parseAsync().catch((error: Error) => {
  if (!(error instanceof CommanderError)) say(error.message); // its own words are out already
  process.exit(error instanceof CommanderError ? error.exitCode : 1);
});
