import { addAbortSignal, type Readable } from 'node:stream';
import { Command } from 'commander';
import { once, reportInOneLine } from './errorOutput.ts';

type Context = {
  /** For the log that a monitor checks. */
  token: string | undefined;
  input: Readable;
  write: (text: string) => Promise<void>;
  /** Prints a line for the user of the command, on standard error. */
  print: (line: string) => void;
  /** Aborts when the command has to stop. */
  signal: AbortSignal;
};

/** The commands of auditors and witnesses. A command's module is loaded when it runs. */
export function commandLine(context: Context): Command {
  const { write, print } = context;
  const program = new Command('transparency-log')
    .description('Check a transparency log (https://c2sp.org/tlog-tiles) from anywhere.')
    .exitOverride();
  reportInOneLine(program);

  const checkProof = program
    .command('check-proof')
    .description('Read a proof from standard input, and print what it proves; requires no log.')
    .usage('--key VKEY [--expect CHECKPOINT] [--witness VKEY]… < FILE.tlog-proof')
    .requiredOption('--key <vkey>', "The log's verifier key, as log-key prints it.", once('key'))
    .option(
      '--expect <checkpoint>',
      'SIZE:ROOT, or a file with a checkpoint: what a consistency proof starts from.',
      once('expect'),
    );
  addLogOptions(checkProof).action(async (options) => {
    const { checkProof } = await import('./checkProof.ts');
    const input = addAbortSignal(context.signal, context.input);
    await write(`${await checkProof(input, options, print)}\n`);
  });

  const monitor = program
    .command('monitor')
    .description(
      'Follow a log over HTTP, and check that it does not contradict what it signed; requires no log.',
    )
    .usage('--url URL --key VKEY --state FILE [--once | --interval SECONDS] [options]')
    .requiredOption('--url <url>', 'The URL of the log: /checkpoint and /tile/… follow it.', once('url'))
    .requiredOption('--key <vkey>', "The log's verifier key, as log-key prints it.", once('key'))
    .requiredOption('--state <file>', 'Keeps what the log has signed, for the next check.', once('state'))
    .option('--once', 'Check once; the exit code is 1 after an alarm, 2 if the log is unavailable.')
    .option('--interval <seconds>', 'Time between two checks.', '60')
    .option('--all', 'Check all events again, not only the new ones.')
    .option('--timeout <time>', 'How long a check may take.', '1h')
    .option('--stale-after <time>', 'How old cosignatures or, without witnesses, the last growth may be.')
    .option('--expect-growth', 'With --stale-after and witnesses: the log must also grow.')
    .option('--known <file...>', 'Checkpoints and receipts of others, with which the log must be consistent.')
    .option('--on-alarm <program>', 'A program that gets an alarm on its standard input.', once('on-alarm'))
    .addHelpText('after', '\nThe environment variable TOKEN is a token, if the log requires one.');
  addLogOptions(monitor).action(async (options) =>
    (await import('../monitor/monitor.ts')).monitorLog(options, context),
  );

  program
    .command('witness')
    .description('Cosign the checkpoints of logs over HTTP, as a witness (https://c2sp.org/tlog-witness).')
    .usage('--key FILE --name NAME --logs FILE --state DIR [--host HOST] [--port PORT]')
    .requiredOption('--key <file>', 'Its private key, a JWK; created if it does not exist.', once('key'))
    .requiredOption('--name <name>', 'The name of the key, such as witness.example/w1.', once('name'))
    .requiredOption(
      '--logs <file>',
      'Verifier keys of logs, one a line, and origins that differ from their names.',
      once('logs'),
    )
    .requiredOption('--state <dir>', 'Keeps the checkpoints; restore no older copy of it.', once('state'))
    .option('--host <host>', 'Where to listen.', '127.0.0.1')
    .option('--port <port>', 'A port, or 0 for a free one.', '7380')
    .action(async (options) => (await import('../witness/witnessCommand.ts')).runWitness(options, context));

  return program;
}

/** Whose checkpoints they are, and which witnesses must have signed them. */
function addLogOptions(command: Command): Command {
  const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];
  return command
    .option('--origin <origin>', "The log's origin, if it is not the name of its key.", once('origin'))
    .option('--witness <vkey url>', 'The key of a witness, and optionally its URL; repeatable.', collect)
    .option('--quorum <n>', 'How many witnesses must sign; by default more than half.', once('quorum'));
}
