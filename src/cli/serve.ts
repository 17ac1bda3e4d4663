import { once } from 'node:events';
import pino, { type Logger } from 'pino';
import pretty from 'pino-pretty';
import { readConfig } from '../config.ts';
import { type Service, startService } from '../service.ts';
import { firstSteps, tokenHint } from './firstSteps.ts';
import { Progress } from './progress.ts';
import { handleSignals } from './signals.ts';

/** Time for requests in flight after a signal, in milliseconds; then their connections are closed. */
const DRAIN_TIMEOUT_MS = 5_000;
/** Time for the shutdown, in milliseconds, whatever the disk does: `docker stop` kills after 10 000. */
const SHUTDOWN_TIMEOUT_MS = 9_000;
/** Catching up with fewer events is not shown. */
const MIN_PROGRESS = 10_000n;

/**
 * Runs the server until a signal stops it. @throws Error with a message for the operator if it cannot start
 */
export async function serve(process: NodeJS.Process): Promise<void> {
  const config = readConfig(process.env);
  process.umask(0o077); // the data is the owner's, whatever the directory's mode is
  const onTerminal = process.stdout.isTTY === true;
  const destination = onTerminal ? pretty({ sync: true }) : pino.destination({ sync: false });
  const logger = pino(
    { level: config.logLevel, base: null, timestamp: pino.stdTimeFunctions.isoTime },
    destination,
  );
  const die = (error: unknown, message: string): void => {
    logger.fatal({ err: error }, message);
    process.exit(1);
  };
  process.on('uncaughtException', (error) => die(error, 'uncaught exception'));
  process.on('unhandledRejection', (error) => die(error, 'unhandled rejection'));

  const starting = startService(config, {
    logger,
    progressOf: (view) => catchUpProgress(view, logger, onTerminal),
    onFatal: (error) => die(error, error.message),
  });
  // Before anyone can know that the process runs.
  shutDownOnSignal(process, {
    starting,
    logger,
    flush: async () => onTerminal || (await ended(destination)),
  });
  const service = await starting;
  if (config.jwksUrl) return;
  logger.info(tokenHint(config));
  if (service.isNew) process.stdout.write(firstSteps(config, service.url));
}

/**
 * Resolves when everything is written: `process.exit` would write a line again that is just being written.
 */
async function ended(destination: NodeJS.EventEmitter & { end(): void }): Promise<void> {
  const closed = once(destination, 'close');
  destination.end();
  await closed;
}

type Shutdown = { starting: Promise<Service>; logger: Logger; flush: () => Promise<unknown> };

function shutDownOnSignal(process: NodeJS.Process, { starting, logger, flush }: Shutdown): void {
  const shutDown = async (signal: NodeJS.Signals): Promise<void> => {
    logger.info({ signal }, 'closing');
    try {
      const service = await starting;
      const drain = setTimeout(() => void closeConnections(service, logger), DRAIN_TIMEOUT_MS);
      await service.close();
      clearTimeout(drain);
      logger.info('closed');
    } catch (error) {
      logger.error({ err: error }, 'shutdown failed');
    }
    await flush();
    process.exit(0);
  };
  handleSignals(process, {
    stop: (signal) => void shutDown(signal),
    force: (signal) => {
      logger.warn({ signal }, 'forced exit');
      process.kill(process.pid, 'SIGKILL'); // `process.exit` would wait for a thread that waits for the disk
    },
    timeoutMs: SHUTDOWN_TIMEOUT_MS,
  });
}

async function closeConnections(service: Service, logger: Logger): Promise<void> {
  const connections = await service.closeConnections();
  if (connections > 0) logger.warn({ connections }, 'closed connections of requests in flight');
}

/** Shows how a view catches up: a bar on a terminal, otherwise a log line every two seconds. */
function catchUpProgress(view: string, logger: Logger, onTerminal: boolean) {
  const progress = new Progress({
    onTerminal,
    report: ({ events, position, end, rate, secondsLeft }) =>
      logger.info(
        { view, events, position: String(position), end: String(end), rate, secondsLeft },
        'catching up with the log',
      ),
  });
  let isShown = false;
  return (done: { events: number; position: bigint; end: bigint }): void => {
    isShown ||= done.end - done.position > MIN_PROGRESS;
    if (isShown) progress.show({ step: 'catching up', ...done });
    if (done.position < done.end) return;
    progress[Symbol.dispose]();
    isShown = false;
  };
}
