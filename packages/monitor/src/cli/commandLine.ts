import { addAbortSignal, type Readable } from 'node:stream';
import { once, reportInOneLine } from '@event-sourced/node/cli';
import { Command } from 'commander';

type Context = {
  /** Has the token for the log that a monitor checks, and the proxy. */
  env: NodeJS.ProcessEnv;
  input: Readable;
  write: (text: string) => Promise<void>;
  /** Prints a line for the user of the command, on standard error. */
  print: (line: string) => void;
  /** Aborts when the command must stop. */
  signal: AbortSignal;
};

/** The commands of auditors. A command's module is loaded when it runs. */
export function commandLine(context: Context): Command {
  const { write, print } = context;
  const program = new Command('transparency-log')
    .description('Check a transparency log (https://c2sp.org/tlog-tiles) from anywhere.')
    .exitOverride();
  reportInOneLine(program);

  const checkProof = program
    .command('check-proof')
    .description(
      'Verify a proof from standard input, and print what it proves. Requires no access to the log.',
    )
    .usage('--key VKEY [--expect CHECKPOINT] [--record FILE] [--witness VKEY]… < FILE.tlog-proof')
    .requiredOption('--key <vkey>', "The log's verifier key, as log-key prints it.", once('key'))
    .option(
      '--expect <checkpoint>',
      'SIZE:ROOT, or a file with a checkpoint: the start of a consistency proof.',
      once('expect'),
    )
    .option(
      '--record <file>',
      'The receipt of a record of erased events: whether it names the event.',
      once('record'),
    );
  addLogOptions(checkProof).action(async (options) => {
    const { checkProof } = await import('./checkProof.ts');
    const input = addAbortSignal(context.signal, context.input);
    await write(`${await checkProof(input, options, print)}\n`);
  });

  const monitor = program
    .command('monitor')
    .description('Follow a log over HTTP, and check that it stays consistent with its signed checkpoints.')
    .usage('--url URL --key VKEY --state FILE [--once | --interval SECONDS] [options]')
    .requiredOption('--url <url>', 'The URL of the log: /checkpoint and /tile/… follow it.', once('url'))
    .requiredOption('--key <vkey>', "The log's verifier key, as log-key prints it.", once('key'))
    .requiredOption(
      '--state <file>',
      'The file for signed checkpoints, to continue from at the next check.',
      once('state'),
    )
    .option('--once', 'Check once; the exit code is 1 after an alarm, 2 if the log was not checked.')
    .option('--interval <seconds>', 'Time between two checks.', '60')
    .option(
      '--events',
      'Also compare the events in /events, and check erasures. Requires a token with the scope audit.',
    )
    .option(
      '--all',
      'Check all entries and events again. Only this detects an event that was erased without a record, or put back, after it was read.',
    )
    .option('--timeout <time>', 'The maximum duration of a check.', '1h')
    .option(
      '--stale-after <time>',
      'How long the log may be unavailable, or show fewer events than it has signed; the maximum age of cosignatures.',
    )
    .option('--expect-growth', 'With --stale-after: the maximum time without a new event, too.')
    .option(
      '--known <file...>',
      'Checkpoints and receipts from others; the log must be consistent with them.',
    )
    .addHelpText('after', '\nIf the log requires a token, set the environment variable TOKEN.');
  addLogOptions(monitor).action(async (options) =>
    (await import('../monitor.ts')).monitorLog(options, context),
  );

  return program;
}

/** Adds the options for the log's key and for its witnesses. */
function addLogOptions(command: Command): Command {
  const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];
  return command
    .option('--origin <origin>', "The log's origin, if it is not the name of its key.", once('origin'))
    .option('--witness <vkey url>', 'The key of a witness, and optionally its URL; repeatable.', collect)
    .option(
      '--quorum <n>',
      'The number of witnesses that must sign; by default more than half.',
      once('quorum'),
    );
}
