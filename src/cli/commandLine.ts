import { once, reportInOneLine } from '@event-sourced/node/cli';
import { Command, Option } from 'commander';
import type { Job } from '../jobs.ts';
import { VERSION } from '../version.ts';
import type { Context } from './context.ts';
import { PlantEventQuery } from './eventOptions.ts';

type Runners = {
  serve(): Promise<void>;
  run(command: (context: Context) => Promise<void>): Promise<void>;
};

/** The command line: the server, or a command. A command's module is loaded when it runs. */
export function commandLine(args: readonly string[], { serve, run }: Runners): Command {
  const program = new Command(process.env.IMAGE_COMMAND ?? 'bin/plant-store')
    .description('Run the service or, with arguments, a command.')
    .addHelpText('after', '\nSettings are environment variables, or in .env; docs/operations.md lists them.')
    .version(VERSION)
    .exitOverride();
  reportInOneLine(program);
  const runJob = (job: Job, command: (context: Context) => Promise<void>) =>
    run(async (context) => (await import('../jobs.ts')).runJob(job, context, () => command(context)));
  if (args.length === 0) program.action(serve);

  program
    .command('token')
    .description("Print a token for USER, signed with the service's own key.")
    .usage('USER [options]')
    .argument('<user>', 'The subject of the token.')
    .option('--expires <time>', 'Lifetime: a number and a unit, such as 90s, 15m, 12h or 30d.', '30d')
    .option(
      '--scope <scope>',
      'audit: /events, checkpoints, tiles, and proofs of all users; monitor: checkpoints and tiles only; erase: to erase users.',
    )
    .action((user, options) =>
      run(async (context) => (await import('./token.ts')).tokenCommand(user, options, context)),
    );

  program
    .command('copy')
    .description('Copy the log between EventStoreDB and a data directory.')
    .usage('--from <url|dir> --to <url|dir>')
    .requiredOption('--from <url|dir>', 'The log to copy.', once('from'))
    .requiredOption('--to <url|dir>', 'The target: empty, or an earlier copy to continue.', once('to'))
    .action((options) => run(async (context) => (await import('./copy.ts')).copyCommand(options, context)));

  const replay = program
    .command('replay')
    .description('Print the events of the log, as CloudEvents, one per line.')
    .usage('[options]');
  for (const [filter, schema] of Object.entries<object>(PlantEventQuery.properties))
    replay.option(`--${filter} <value>`, Reflect.get(schema, 'description'), once(filter));
  replay
    .option('--follow', 'Follow the log: continue with each new event.')
    .option('--table', 'Print a table instead of JSON.')
    .addOption(
      new Option('--end', 'Print a last line that says where the replay ended.').conflicts([
        'follow',
        'table',
      ]),
    )
    .action((options) =>
      run(async (context) => (await import('./replay.ts')).replayCommand(options, context)),
    );

  program
    .command('verify')
    .description('Read the whole log; print its size, its root, and all problems of the log and its views.')
    .usage('[options]')
    .option(
      '--expect <checkpoint>',
      'A file with a checkpoint, or SIZE:ROOT of an earlier verify: the log must still begin with these events.',
      once('expect'),
    )
    .addOption(
      new Option(
        '--signed',
        'The log must begin with the events of the last checkpoint that the service has signed, if any.',
      ).conflicts('expect'),
    )
    .option('--json', 'Print JSON.')
    .action((options) => {
      const command = async (context: Context) =>
        (await import('./verify.ts')).verifyCommand(options, context);
      // A comparison is no scheduled job: its result is read where it is printed.
      return options.expect === undefined ? runJob('verify', command) : run(command);
    });

  program
    .command('log-key')
    .description("Print the log's verifier key, by which its checkpoints are verified.")
    .usage('')
    .action(() => run(async (context) => (await import('./logKey.ts')).logKeyCommand(context)));

  program
    .command('prove')
    .description(
      'Print a proof for the last signed checkpoint: that it has a plant, or that the log has only grown.',
    )
    .usage('--user USER --id ID | --from SIZE')
    .option('--user <user>', 'The owner of the plant.', once('user'))
    .option('--id <id>', 'The ID of the plant.', once('id'))
    .option('--from <events>', 'The earlier size of the log, or a file with its checkpoint.', once('from'))
    .action((options) => run(async (context) => (await import('./prove.ts')).proveCommand(options, context)));

  program
    .command('erase')
    .description('Erase all plants of USER for ever; proofs stay valid (stop the server first).')
    .usage('USER [options]')
    .argument('<user>', 'The owner of the plants.')
    .option('--yes', 'Do not ask.')
    .action((user, options) =>
      run(async (context) => (await import('./erase.ts')).eraseCommand(user, options, context)),
    );

  program
    .command('backup')
    .description('Copy the embedded log to a file; the server may be running.')
    .usage('FILE')
    .argument('<file>', 'A new file, or an earlier backup of this log, which is replaced.')
    .action((file) =>
      runJob('backup', async (context) => (await import('./backup.ts')).backupCommand(file, context)),
    );

  return program;
}
