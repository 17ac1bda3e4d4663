import { printableJson } from '@event-sourced/node/cli';
import { handleSignals, useProxyFromEnv } from '@event-sourced/node/process';
import pino, { type Logger } from 'pino';
import { readConfig, useTempDir } from '../config.ts';
import { type Service, startService } from '../service.ts';
import { firstSteps, tokenHint } from './firstSteps.ts';
import { humanReadable } from './humanReadable.ts';
import { type LoggerOutput, loggerOutput } from './loggerOutput.ts';
import { Progress } from './progress.ts';

/** For clients that send a request on an open connection: its response says that the connection closes. */
const CLOSE_IDLE_AFTER_MS = 1_000;
/** For requests in flight after a signal; then the server closes their connections. */
const DRAIN_TIMEOUT_MS = 5_000;
/** Even if the disk hangs: `docker stop` kills after 10 000 ms. */
const SHUTDOWN_TIMEOUT_MS = 9_000;
const MIN_PROGRESS = 10_000n;

/** Runs the server until a signal stops it. @throws Error for the operator if it cannot start */
export async function serve(process: NodeJS.Process): Promise<void> {
  const config = readConfig(process.env);
  assertCodeGeneration();
  if (config.jwksUrl || config.witnesses) useProxyFromEnv(process.env);
  useTempDir(process.env, config);
  process.umask(0o077); // only the owner can read the data, whatever the mode of the directory
  const onTerminal = process.stdout.isTTY === true;
  // Not process.stdout, whose buffer is unbounded. Accessing it has made a pipe non-blocking.
  const output = loggerOutput(1, (lines) => logger.warn({ lines }, 'dropped log lines'));
  const logger = pino(
    { level: config.logLevel, base: null, timestamp: pino.stdTimeFunctions.isoTime },
    { write: (line) => output.write(onTerminal ? humanReadable(line) : printableJson(line)) },
  );
  const die = (error: unknown, message: string): void => {
    logger.fatal({ err: error }, message);
    void exit(process, output, 1);
  };
  process.on('uncaughtException', (error) => die(error, 'uncaught exception'));
  process.on('unhandledRejection', (error) => die(error, 'unhandled rejection'));

  const starting = startService(config, {
    logger,
    trackProgress: (view) => catchUpProgress(view, logger),
    onFatal: (error) => die(error, error.message),
    closeIdleAfterMs: CLOSE_IDLE_AFTER_MS,
  });
  // Before the log shows that the process runs.
  shutDownOnSignal(process, {
    starting,
    logger,
    exit: (code) => exit(process, output, code),
  });
  const service = await starting.catch(async (error) => {
    await output.end();
    throw error;
  });
  if (config.jwksUrl) return;
  logger.info(tokenHint(config));
  if (service.isNew) output.write(firstSteps(config, service.url));
}

/** Fastify's router compiles its routes. @throws Error if Node may not */
function assertCodeGeneration(): void {
  try {
    new Function();
  } catch {
    throw new Error('remove --disallow-code-generation-from-strings from the options of Node');
  }
}

/** Ends the process after its log lines are written, or writing them has timed out. */
async function exit(process: NodeJS.Process, output: LoggerOutput, code: number): Promise<void> {
  if (await output.end()) process.exit(code);
  process.kill(process.pid, 'SIGKILL');
}

type Shutdown = { starting: Promise<Service>; logger: Logger; exit: (code: number) => Promise<void> };

function shutDownOnSignal(process: NodeJS.Process, { starting, logger, exit }: Shutdown): void {
  const shutDown = async (signal: NodeJS.Signals): Promise<void> => {
    logger.info({ signal }, 'closing');
    try {
      const service = await starting;
      const drain = setTimeout(() => void closeConnections(service, logger), DRAIN_TIMEOUT_MS);
      await service.close();
      clearTimeout(drain);
    } catch (error) {
      logger.error({ err: error }, 'shutdown failed');
      return exit(1);
    }
    logger.info('closed');
    await exit(0);
  };
  handleSignals(process, {
    stop: (signal) => void shutDown(signal),
    force: (signal) => {
      logger.warn({ signal }, 'forced exit');
      process.kill(process.pid, 'SIGKILL'); // `process.exit` would wait for a thread that the disk blocks
    },
    timeoutMs: SHUTDOWN_TIMEOUT_MS,
  });
}

async function closeConnections(service: Service, logger: Logger): Promise<void> {
  const connections = await service.closeConnections();
  if (connections > 0) logger.warn({ connections }, 'closed connections of requests in flight');
}

/** Logs the progress of a view that is far behind the log, every two seconds. */
function catchUpProgress(view: string, logger: Logger) {
  let progress: Progress | undefined;
  return (done: { events: number; position: bigint; end: bigint }): void => {
    if (done.end - done.position > MIN_PROGRESS)
      progress ??= new Progress(({ events, position, end, rate, secondsLeft }) =>
        logger.info(
          { view, events, position: String(position), end: String(end), rate, secondsLeft },
          'catching up with the log',
        ),
      );
    progress?.show({ step: 'catching up', ...done });
    if (done.position >= done.end) progress = undefined;
  };
}
