import { once } from 'node:events';
import { CommanderError } from 'commander';
import type { Logger } from 'pino';
import { commandLine } from './commands/commandLine.ts';
import { handleSignals } from './commands/signals.ts';
import type { Surroundings } from './commands/surroundings.ts';
import { type Config, readConfig } from './config.ts';
import { reportProgress } from './progress.ts';
import type { Service } from './serve.ts';

// The command line, and the only place that touches the process: environment, arguments, signals, exit codes.
// What only one command needs is loaded when it runs: that is most of the time that a short one takes.

/** Time for requests in flight to end after a signal, in milliseconds; then their connections are cut. */
const DRAIN_TIMEOUT_MS = 5_000;
/** Time for the server to end after a signal, in milliseconds, whatever the disk does: `docker stop` kills after 10 000. */
const SHUTDOWN_TIMEOUT_MS = 9_000;
/** Time for a command to clean up after a signal, in milliseconds. */
const CLEANUP_TIMEOUT_MS = 5_000;

async function runServer(config: Config): Promise<void> {
  process.umask(0o077); // plants are nobody else's business, whatever the directory allows
  const onTerminal = process.stdout.isTTY === true;
  const { default: pino } = await import('pino');
  const destination = onTerminal
    ? (await import('pino-pretty')).default({ sync: true })
    : pino.destination({ sync: false });
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
  // From the first moment that anyone can know of this process.
  closeOnSignals(starting, log, async () => onTerminal || (await ended(destination)));
  const service = await starting;
  if (service.isNew && !config.jwksUrl) process.stdout.write(firstSteps(config, service.url));
}

/** A line that is still being written at `process.exit` would be written once more. */
async function ended(destination: NodeJS.EventEmitter & { end(): void }): Promise<void> {
  const closed = once(destination, 'close');
  destination.end();
  await closed;
}

function closeOnSignals(starting: Promise<Service>, log: Logger, flush: () => Promise<unknown>): void {
  const close = async (signal: NodeJS.Signals): Promise<void> => {
    log.info({ signal }, 'closing');
    try {
      const service = await starting;
      const drain = setTimeout(() => void cutConnections(service, log), DRAIN_TIMEOUT_MS);
      await service.close();
      clearTimeout(drain);
      log.info('closed');
    } catch (error) {
      log.error({ err: error }, 'closed, not cleanly');
    }
    await flush();
    process.exit(0);
  };
  handleSignals(process, {
    stop: (signal) => void close(signal),
    force: (signal) => {
      log.warn({ signal }, 'forced exit');
      process.kill(process.pid, 'SIGKILL'); // `process.exit` would wait for a thread that waits for the disk
    },
    timeoutMs: SHUTDOWN_TIMEOUT_MS,
  });
}

async function cutConnections(service: Service, log: Logger): Promise<void> {
  const connections = await service.cutConnections();
  if (connections > 0) log.warn({ connections }, 'connections cut');
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

/** Runs a command of the command line: Ctrl-C lets it put away what it has begun, a second one does not. */
async function runCommand(run: (surroundings: Surroundings) => Promise<void>): Promise<void> {
  process.umask(0o077);
  const stopping = new AbortController();
  let stoppedBy: NodeJS.Signals | undefined;
  handleSignals(process, {
    stop: (signal) => {
      stoppedBy = signal;
      stopping.abort(new Error(`stopped by ${signal}`));
    },
    force: endBy,
    timeoutMs: CLEANUP_TIMEOUT_MS,
  });
  let config: Config | undefined;
  const surroundings: Surroundings = {
    get config() {
      config ??= readConfig(process.env);
      return config;
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
    if (!stoppedBy) throw error;
  } finally {
    if (stoppedBy) endBy(stoppedBy);
  }
}

/** Ends as a process without a handler does, so that a shell sees why. */
function endBy(signal: NodeJS.Signals): void {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
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
  command: runCommand,
});
program.parseAsync().catch((error: Error) => {
  if (!(error instanceof CommanderError)) say(error.message); // its own words are out already
  process.exit(error instanceof CommanderError ? error.exitCode : 1);
});
